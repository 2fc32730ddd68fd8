package store_test

import (
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestNewerFieldsArePreserved(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	storeApp(t, s, "hello:v1")
	_, err := s.CreatePlan(ctx, plan.Plan{ID: "plan-starter", Namespace: "shop-prod", Name: "Starter", Limits: plan.Limits{Rate: 1, Burst: 1}})
	must(err)
	k := newKey(t)
	_, err = s.IssueKey(ctx, k, apikey.Request{}, 0)
	must(err)
	must(s.CreateUser(ctx, user.User{Name: "ada", CreatedAt: noon()}))
	build, err := s.RecordBuild(ctx, hello(), func(app.App) (deploy.Build, error) {
		return deploy.NewBuild(app.GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"}, "", deploy.Manual, "ada", noon()), nil
	})
	must(err)
	for path, update := range map[string]func() error{
		"apps/shop-prod.hello": func() error {
			_, err := s.UpdateApp(ctx, hello(), func(a app.App) (app.App, error) {
				a.RequireAPIKey, a.Gate = true, app.Gate{State: app.Pending, Since: noon().Add(time.Hour)}
				return a, nil
			})
			return err
		},
		"plans/shop-prod.plan-starter": func() error {
			_, _, err := s.UpdatePlan(ctx, "shop-prod", "plan-starter", func(p plan.Plan) (plan.Plan, error) {
				p.Name = "Other"
				return p, nil
			})
			return err
		},
		"keys/" + string(k.ID()): func() error {
			_, _, err := s.ReissueKey(ctx, k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
			return err
		},
		"projects/shop": func() error {
			_, err := s.UpdateMembers(ctx, "shop", func(map[string]app.Role, store.ReadStates) (map[string]app.Role, error) {
				return map[string]app.Role{"ada": app.Owner}, nil
			})
			return err
		},
		"users/ada": func() error {
			_, err := s.UpdateUser(ctx, "ada", func(u user.User) (user.User, error) {
				u.Hash = "other"
				return u, nil
			})
			return err
		},
		"apps/shop-prod.hello/deployments/1": func() error {
			_, err := s.UpdateDeployment(ctx, hello(), 1, func(r deploy.Revision) (deploy.Revision, bool) {
				r.Status = deploy.Live
				return r, true
			})
			return err
		},
		"apps/shop-prod.hello/builds/1": func() error {
			_, err := s.ObserveBuild(ctx, hello(), build, deploy.Run{UID: "run", Done: true, Message: "It failed."}, noon())
			return err
		},
	} {
		before, err := raw.Doc(path).Get(ctx)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_, err = raw.Doc(path).Update(ctx, []firestore.Update{{Path: "newer", Value: "kept"}})
		must(err)
		must(update())
		after, err := raw.Doc(path).Get(ctx)
		must(err)
		if after.Data()["newer"] != "kept" || len(after.Data()) < len(before.Data())+1 {
			t.Errorf("%s after the change: got %v, want the newer field", path, after.Data())
		}
	}
}
