package store_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// After a canceled commit, the audit record shows whether it was made. If not, the change is
// unavailable and can be repeated.
func TestUnclearCommit(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	storetest.Environment(t, storetest.Open(t, project), "shop", "prod")
	arrives := true
	s, err := store.OpenAnswered(t.Context(), project, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !strings.HasSuffix(method, "/Commit") {
			return call(ctx, method, req, reply, cc, opts...)
		}
		if arrives {
			if err := call(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
		}
		return status.Error(codes.Canceled, "call already cancelled")
	})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	create := func(name string) error {
		made, err := s.CreatePlan(t.Context(), plan.Plan{ID: plan.ID("plan-" + name), Namespace: "shop-prod", Name: name, Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: noon()})
		if err == nil && (made.ID == "" || made.Plans.IsZero()) {
			t.Errorf("%s: got no time of the commit: %+v", name, made)
		}
		return err
	}
	if err := create("arrives"); err != nil {
		t.Errorf("commit that succeeds: got %v, want no error", err)
	}
	if err := create("arrives"); !problem.Is(err, problem.AlreadyExists) {
		t.Errorf("repeated commit: got %v, want already_exists", err)
	}
	arrives = false
	if err := create("lost"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("lost commit: got %v, want unavailable", err)
	}
	arrives = true
	if err := create("lost"); err != nil {
		t.Errorf("repeated lost commit: got %v, want no error", err)
	}
}
