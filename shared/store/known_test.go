package store

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/problem"
)

// TestKnown: what is the store's or the network's failure is unavailable, what is
// ours stays as it is and becomes an internal error.
func TestKnown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want problem.Code
	}{
		{"no answer in time", context.DeadlineExceeded, problem.Unavailable},
		{"no answer in time, by the store", status.Error(codes.DeadlineExceeded, ""), problem.Unavailable},
		{"refused", status.Error(codes.Unavailable, "connection refused"), problem.Unavailable},
		{"commit sent again after a reset", status.Error(codes.InvalidArgument, "Transaction is invalid or closed."), problem.Unavailable},
		{"the same, in production", status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid."), problem.Unavailable},
		{"a call that is wrong", status.Error(codes.InvalidArgument, "Document name \"x\" is invalid."), problem.Internal},
		{"overtaken", status.Error(codes.Aborted, ""), problem.Conflict},
		{"absent", status.Error(codes.NotFound, ""), problem.NotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := problem.From(known(test.err, "key")); got.Code != test.want {
				t.Errorf("code %s, want %s", got.Code, test.want)
			}
		})
	}
}
