package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestActivity(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	makeEnvironment(t, s, "shop", "prod")
	makeEnvironment(t, s, "shop", "staging")
	for _, environment := range []string{"prod", "staging"} {
		a := newApp("shop", environment, "hello")
		wantProblem(t, "create", s.CreateApp(ctx, a, storetest.First(a)), "")
		_, err := s.CreatePlan(ctx, plan.Plan{ID: "plan-a", Namespace: a.Namespace, Name: "A", Limits: plan.Limits{Rate: 1, Burst: 2}})
		wantProblem(t, "plan", err, "")
	}
	k := newKey(t)
	k.Plan, k.Apps, k.Name = "plan-a", nil, "ci"
	_, err := s.IssueKey(ctx, k, apikey.Request{}, 0)
	wantProblem(t, "key", err, "")
	_, _, err = s.ReissueKey(ctx, k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { k.Name = "Checkout"; return k, nil })
	wantProblem(t, "rename", err, "")
	hello := app.Ref{Namespace: "shop-prod", Name: "hello"}
	deployAt := func(at time.Time) {
		t.Helper()
		rev, err := s.RecordDeployment(ctx, hello, func(app.App, deploy.Revision) (deploy.Revision, error) {
			return deploy.New("r/h:2", "", deploy.Manual, "ada", at), nil
		})
		wantProblem(t, "deploy", err, "")
		_, err = s.UpdateDeployment(ctx, hello, rev.Number, func(r deploy.Revision) (deploy.Revision, bool) {
			r.Status, r.Message = deploy.Failed, "no such image"
			return r, true
		})
		wantProblem(t, "fail", err, "")
	}
	call := func(result hook.Result, at time.Time) {
		t.Helper()
		r := hook.Receipt{ID: store.ReceiptID(at), At: at, Last: at, App: hello, Result: result, Count: 1}
		if result == hook.Unproven {
			r.Code = problem.InvalidToken
		}
		wantProblem(t, "call", s.KeepReceipts(ctx, []hook.Receipt{r}), "")
	}
	call(hook.Ignored, time.Now())
	deployAt(time.Now())
	deployAt(time.Now().Add(-time.Hour))
	call(hook.Deployed, time.Now())
	call(hook.Unproven, time.Now())
	e := app.Environment{Project: "shop", Name: "prod", Namespace: "shop-prod"}
	of := func(kind audit.Kind, q audit.Query, page store.Page) (lines []string, next string) {
		t.Helper()
		entries, next, err := s.Activity(t.Context(), e, kind, q, page)
		wantProblem(t, "list", err, "")
		for _, e := range entries {
			lines = append(lines, fmt.Sprintf("%s %s%s%s", e.Action, e.Deployment.Status, e.Key.Name, e.Receipt.Result))
		}
		return lines, next
	}
	all := []string{
		"webhook.call unproven", "deployment.create ", "deployment.create failed", "webhook.call ignored", "key.update Checkout", "key.create Checkout", "plan.create ", "app.create ", "environment.create ",
	}
	for _, tt := range []struct {
		name string
		kind audit.Kind
		q    audit.Query
		want []string
	}{
		{"all", "", audit.Query{}, all},
		{"deployments", audit.Deployments, audit.Query{}, all[1:3]},
		{"calls", audit.Calls, audit.Query{}, []string{all[0], all[3]}},
		{"keys", audit.Keys, audit.Query{}, all[4:7]},
		{"settings", audit.Settings, audit.Query{}, all[7:]},
		{"fields of q that are replaced", "", audit.Query{Project: "bank", Resource: "projects/bank", Actions: []audit.Action{audit.SignIn}}, all},
		{"the webhook", "", audit.Query{Actor: "webhook"}, all[3:4]},
		{"another actor", "", audit.Query{Actor: "bob"}, nil},
		{"earlier", "", audit.Query{To: time.Now().Add(-time.Hour)}, nil},
	} {
		if got, _ := of(tt.kind, tt.q, store.Page{Size: 50}); !cmp.Equal(tt.want, got) {
			t.Errorf("%s (-want +got):\n%s", tt.name, cmp.Diff(tt.want, got))
		}
	}
	for size := 1; size <= len(all); size++ {
		var got []string
		for token, more := "", true; more; more = token != "" {
			var some []string
			some, token = of("", audit.Query{}, store.Page{Size: size, Token: token})
			got = append(got, some...)
		}
		if !cmp.Equal(all, got) {
			t.Errorf("pages of %d (-want +got):\n%s", size, cmp.Diff(all, got))
		}
	}
	wantProblem(t, "delete", storetest.DeleteApp(ctx, s, hello), "")
	if got, _ := of(audit.Deployments, audit.Query{}, store.Page{Size: 50}); !cmp.Equal(got, []string{"deployment.create ", "deployment.create "}) {
		t.Errorf("deleted app: got %v, want records only", got)
	}
}
