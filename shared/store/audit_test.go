package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// asAda returns the context of a request by ada.
func asAda(t testing.TB) context.Context {
	t.Helper()
	ctx := reqctx.Begin(t.Context(), reqctx.Request{ID: "r1", Address: "203.0.113.9"})
	reqctx.SetActor(ctx, reqctx.Actor{Kind: reqctx.User, Name: "ada"})
	return ctx
}

// recorded returns all records of a project, or of the installation if it is "".
func recorded(t testing.TB, s *store.Store, q audit.Query) []audit.Record {
	t.Helper()
	records, _, err := s.Records(t.Context(), q, store.Page{Size: 100})
	check.OK(t, err)
	return records
}

// formatRecord formats a record as one line.
func formatRecord(t testing.TB, r audit.Record) string {
	t.Helper()
	text := func(v audit.Values) string {
		b, err := json.Marshal(v)
		check.OK(t, err)
		return string(b)
	}
	return fmt.Sprintf("%s %s %s %s > %s", r.Actor.Name, r.Action, r.Resource, text(r.Old), text(r.New))
}

// TestEveryChangeIsRecorded makes every possible change and compares the exact records.
func TestEveryChangeIsRecorded(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	must(s.CreateUser(ctx, user.User{Name: "bob", Hash: "secret-hash", Version: 1, State: user.Active}))
	must(errorOf(s.UpdateUser(ctx, "bob", func(u user.User) (user.User, error) { u.Hash, u.Version = "secret-other", 2; return u, nil })))
	must(s.CreateUser(ctx, user.User{Name: "ada", Admin: true, Version: 1, State: user.Active}))
	must(s.CreateUser(ctx, user.User{Name: "cyd", Version: 1, State: user.Active}))
	must(errorOf(s.UpdateUser(ctx, "cyd", func(u user.User) (user.User, error) { u.Version = 2; return u, nil })))
	must(errorOf(s.UpdateUser(ctx, "cyd", func(u user.User) (user.User, error) { u.Admin = true; return u, nil })))
	must(errorOf(s.UpdateUser(ctx, "cyd", func(u user.User) (user.User, error) { return u.WithState(user.Deactivated, time.Time{}), nil })))
	must(errorOf(s.UpdateUser(ctx, "cyd", func(u user.User) (user.User, error) { return u, nil }))) // not a change
	must(s.CreateProject(ctx, app.Project{Name: "shop", Members: map[string]app.Role{"ada": app.Owner}, CreatedAt: noon()}))
	_, err := s.UpdateMembers(ctx, "shop", func(m map[string]app.Role, _ store.ReadStates) (map[string]app.Role, error) {
		m["bob"], m["cyd"] = app.Viewer, app.Viewer
		return m, nil
	})
	must(err)
	must(s.RemoveUser(ctx, "cyd"))
	revoked, left := newToken(t, "shop", "nightly"), newToken(t, "shop", "left")
	must(s.CreateToken(ctx, revoked))
	must(s.CreateToken(ctx, left))
	must(s.RevokeToken(ctx, "shop", revoked.ID))
	must(s.CreateEnvironment(ctx, app.Environment{Project: "shop", Name: "prod", Namespace: "shop-prod", CreatedAt: noon()}))
	_, err = s.CreatePlan(ctx, plan.Plan{ID: "plan-a", Namespace: "shop-prod", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 2}})
	must(err)
	_, _, err = s.UpdatePlan(ctx, "shop-prod", "plan-a", func(p plan.Plan) (plan.Plan, error) {
		p.Limits = plan.Limits{Rate: 1.5, Burst: 2, Quota: 9, Period: plan.Day, Hard: true}
		return p, nil
	})
	must(err)
	a := app.App{
		Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "h.example.com", Port: 80,
		Image: "r/h:1", Revision: 1, Preflight: app.PreflightApp, Gate: app.Gate{State: app.Ungated}, CreatedAt: noon(),
	}
	must(s.CreateApp(ctx, a, storetest.First(a)))
	_, err = s.UpdateApp(ctx, a.Ref(), func(a app.App) (app.App, error) { a.RequireAPIKey = true; return a, nil })
	must(err)
	_, err = s.UpdateApp(ctx, a.Ref(), func(a app.App) (app.App, error) { a.Preflight = app.PreflightRefuse; return a, nil })
	must(err)
	_, err = s.UpdateApp(ctx, a.Ref(), func(a app.App) (app.App, error) { a.Gate.Message = "a step of wiring's"; return a, nil })
	must(err)
	_, err = s.RecordDeployment(ctx, a.Ref(), func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.New("r/h:2", "sha256:2", deploy.Manual, "ada", noon()), nil
	})
	must(err)
	_, err = s.UpdateApp(ctx, a.Ref(), func(a app.App) (app.App, error) {
		a.GitSource = &app.GitSource{Repository: "https://g/h", Branch: "main"}
		return a, nil
	})
	must(err)
	b, err := s.RecordBuild(ctx, a.Ref(), func(a app.App) (deploy.Build, error) {
		return deploy.NewBuild(*a.GitSource, "c1", deploy.Manual, "ada", noon()), nil
	})
	must(err)
	_, err = storetest.ObserveBuild(t.Context(), s, a.Ref(), b.Number, deploy.Run{UID: "u", Done: true, OK: true, Image: "r/h:b1", Commit: "c1" + strings.Repeat("0", 38)}, noon())
	must(err)
	k := newKey(t)
	k.Plan = "plan-a"
	_, err = s.IssueKey(ctx, k, apikey.Request{}, 0)
	must(err)
	change := func(f func(k apikey.Key) apikey.Key) {
		t.Helper()
		_, _, err := s.ReissueKey(ctx, k.ID(), apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return f(k), nil })
		must(err)
	}
	change(func(k apikey.Key) apikey.Key { k.Name = "n"; return k })
	change(func(k apikey.Key) apikey.Key { return k }) // not a change
	change(func(k apikey.Key) apikey.Key { k.Secret = apikey.HashOf([]byte("other")); return k })
	change(func(k apikey.Key) apikey.Key { return k.Revoke(noon(), "ada") })
	must(s.DeletePlan(ctx, "shop-prod", "plan-a", always))
	must(storetest.DeleteApp(ctx, s, a.Ref()))
	must(storetest.DeleteEnvironment(ctx, s, "shop", "prod"))
	must(storetest.DeleteProject(ctx, s, "shop"))
	must(s.SignOut(ctx, "JTI", noon()))

	const env = "projects/shop/environments/prod"
	key := "projects/shop/api-keys/" + string(k.ID())
	source := `{"branch":"main","path":"","repository":"https://g/h"}`
	compare(t, s, "shop", []string{
		`ada token.revoke projects/shop/tokens/` + string(left.ID) + ` {"expires_at":"2026-03-14T13:00:00.123456Z","name":"left","role":"developer"} > null`,
		`ada environment.delete ` + env + ` {"namespace":"shop-prod"} > null`,
		`ada app.delete ` + env + `/apps/hello {"git_source":` + source + `,"host":"h.example.com","image":"r/h:b1","port":80,"preflight":"refuse","require_api_key":true} > null`,
		`ada plan.delete ` + env + `/plans/plan-a {"burst":2,"name":"A","quota":9,"quota_mode":"hard","quota_period":"day","rate":1.5} > null`,
		`ada key.revoke ` + key + ` {"status":"active"} > {"status":"revoked"}`,
		`ada key.rotate ` + key + ` {"secret":null} > {"secret":"replaced"}`,
		`ada key.update ` + key + ` {"name":""} > {"name":"n"}`,
		`ada key.create ` + key + ` null > {"apps":[],"environment":"prod","expires_at":null,"name":"","plan":"plan-a","previous_secret_expires_at":null,"scope":"all","status":"active","tags":[]}`,
		`build 1 deployment.create ` + env + `/apps/hello/deployments/3 {"digest":"sha256:2","image":"r/h:2","revision":2,"trigger":"manual"} > {"commit":"c1` + strings.Repeat("0", 38) + `","image":"r/h:b1","revision":3,"trigger":"manual"}`,
		`ada build.request ` + env + `/apps/hello/builds/1 null > {"build":1,"commit":"c1","git_source":` + source + `}`,
		`ada app.update ` + env + `/apps/hello {"git_source":null} > {"git_source":` + source + `}`,
		`ada deployment.create ` + env + `/apps/hello/deployments/2 {"image":"r/h:1","revision":1,"trigger":"manual"} > {"digest":"sha256:2","image":"r/h:2","revision":2,"trigger":"manual"}`,
		`ada app.update ` + env + `/apps/hello {"preflight":"app"} > {"preflight":"refuse"}`,
		`ada app.update ` + env + `/apps/hello {"require_api_key":false} > {"require_api_key":true}`,
		`ada app.create ` + env + `/apps/hello null > {"git_source":null,"host":"h.example.com","image":"r/h:1","port":80,"preflight":"app","require_api_key":false}`,
		`ada plan.update ` + env + `/plans/plan-a {"quota":null,"quota_mode":null,"quota_period":null,"rate":1} > {"quota":9,"quota_mode":"hard","quota_period":"day","rate":1.5}`,
		`ada plan.create ` + env + `/plans/plan-a null > {"burst":2,"name":"A","quota":null,"quota_mode":null,"quota_period":null,"rate":1}`,
		`ada environment.create ` + env + ` null > {"namespace":"shop-prod"}`,
		`ada token.revoke projects/shop/tokens/` + string(revoked.ID) + ` {"expires_at":"2026-03-14T13:00:00.123456Z","name":"nightly","role":"developer"} > null`,
		`ada token.create projects/shop/tokens/` + string(left.ID) + ` null > {"expires_at":"2026-03-14T13:00:00.123456Z","name":"left","role":"developer"}`,
		`ada token.create projects/shop/tokens/` + string(revoked.ID) + ` null > {"expires_at":"2026-03-14T13:00:00.123456Z","name":"nightly","role":"developer"}`,
		`ada project.set_members projects/shop/members {"cyd":"viewer"} > {"cyd":null}`,
		`ada project.set_members projects/shop/members {"bob":null,"cyd":null} > {"bob":"viewer","cyd":"viewer"}`,
	})
	compare(t, s, "", []string{
		`ada session.sign_out users/ada null > null`,
		`ada project.delete projects/shop {"ada":"owner","bob":"viewer"} > null`,
		`ada user.remove users/cyd {"admin":true,"session_version":3,"state":"deactivated"} > null`,
		`ada project.create projects/shop null > {"ada":"owner"}`,
		`ada user.update users/cyd {"session_version":2,"state":"active"} > {"session_version":3,"state":"deactivated"}`,
		`ada user.update users/cyd {"admin":false} > {"admin":true}`,
		`ada user.end_sessions users/cyd {"session_version":1} > {"session_version":2}`,
		`ada user.create users/cyd null > {"admin":false,"session_version":1,"state":"active"}`,
		`ada user.create users/ada null > {"admin":true,"session_version":1,"state":"active"}`,
		`ada user.change_password users/bob {"session_version":1} > {"session_version":2}`,
		`ada user.create users/bob null > {"admin":false,"session_version":1,"state":"active"}`,
	})
}

func compare(t *testing.T, s *store.Store, project string, want []string) {
	t.Helper()
	var got []string
	for _, r := range recorded(t, s, audit.Query{Project: project}) {
		got = append(got, formatRecord(t, r))
		if built := strings.HasPrefix(r.Actor.Name, "build"); built != (r.Origin == reqctx.Request{}) || r.Outcome != audit.Succeeded ||
			!built && (r.Origin != reqctx.Request{ID: "r1", Address: "203.0.113.9"}) {
			t.Errorf("%s: got %s, from %+v", r.Action, r.Outcome, r.Origin)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records of %q (-want +got):\n%s", project, diff)
	}
}

func TestNoRecordWithoutAChange(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	check.OK(t, s.CreateUser(t.Context(), user.User{Name: "ada", Version: 1}))
	storeApps(t, s, "hello")
	before := len(recorded(t, s, audit.Query{Project: "shop"}))
	refusal := problem.FromCode(problem.Conflict)
	tests := map[string]error{
		"an existing project":           s.CreateProject(ctx, app.Project{Name: "shop"}),
		"a missing project":             storetest.DeleteProject(ctx, s, "none"),
		"a project with environments":   storetest.DeleteProject(ctx, s, "shop"),
		"a plan without an environment": errorOf(s.CreatePlan(ctx, plan.Plan{ID: "plan-a", Namespace: "none"})),
		"a missing plan":                s.DeletePlan(ctx, "shop-prod", "plan-a", always),
		"a key without a plan":          errorOf(s.IssueKey(ctx, newKey(t), apikey.Request{}, 0)),
	}
	_, tests["an app's change"] = s.UpdateApp(ctx, hello(), func(app.App) (app.App, error) { return app.App{}, refusal })
	_, tests["a deployment"] = s.RecordDeployment(ctx, hello(), func(app.App, deploy.Revision) (deploy.Revision, error) { return deploy.Revision{}, refusal })
	for name, err := range tests {
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if after := len(recorded(t, s, audit.Query{Project: "shop"})); after != before {
		t.Errorf("got %d new records, want none", after-before)
	}
	if got := recorded(t, s, audit.Query{Actor: "ada"}); len(got) != 0 {
		t.Errorf("records of the installation: got %+v, want none", got)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	id := ""
	for i := range 5 {
		ctx := reqctx.WithActor(t.Context(), reqctx.Actor{Kind: reqctx.User, Name: fmt.Sprintf("user-%d", i%2)})
		var err error
		if id, err = s.Record(ctx, audit.Change{
			Action: audit.EnableWebhook, Outcome: audit.Requested, Project: "shop", Resource: fmt.Sprintf("projects/shop/apps/a%d/webhook", i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	check.OK(t, s.CompleteRecord(t.Context(), id, audit.Failed))
	all := recorded(t, s, audit.Query{Project: "shop"})
	if len(all) != 5 || all[0].ID != id || all[0].Outcome != audit.Failed || all[1].Outcome != audit.Requested {
		t.Fatalf("got records %+v, want five, the first one failed and the second one requested", all)
	}
	tests := []struct {
		name string
		q    audit.Query
		want []int
	}{
		{"an actor", audit.Query{Actor: "user-0"}, []int{0, 2, 4}},
		{"an action", audit.Query{Actions: []audit.Action{audit.EnableWebhook}}, []int{0, 1, 2, 3, 4}},
		{"another action", audit.Query{Actions: []audit.Action{audit.DeleteApp}}, nil},
		{"a resource", audit.Query{Resource: "projects/shop/apps/a3/webhook"}, []int{1}},
		{"parts of a resource", audit.Query{Resource: "projects/shop/apps/a3"}, []int{1}},
		{"a name with the same beginning", audit.Query{Resource: "projects/shop/apps/a"}, nil},
		{"from", audit.Query{From: all[2].At}, []int{0, 1, 2}},
		{"to", audit.Query{To: all[2].At}, []int{2, 3, 4}},
		{"one time", audit.Query{From: all[2].At, To: all[2].At}, []int{2}},
		{"all filters", audit.Query{Actor: "user-0", Actions: []audit.Action{audit.DeleteApp, audit.EnableWebhook}, Resource: "projects/shop", From: all[2].At, To: all[0].At}, []int{0, 2}},
		{"later", audit.Query{From: all[0].At.Add(time.Second)}, nil},
	}
	for _, tt := range tests {
		tt.q.Project = "shop"
		var got, want []string
		for _, r := range recorded(t, s, tt.q) {
			got = append(got, r.ID)
		}
		for _, i := range tt.want {
			want = append(want, all[i].ID)
		}
		check.Equal(t, tt.name, want, got)
	}
	var paged []audit.Record
	for page := (store.Page{Size: 2}); ; {
		records, next, err := s.Records(t.Context(), audit.Query{Project: "shop", Actions: []audit.Action{audit.EnableWebhook}}, page)
		check.OK(t, err)
		paged = append(paged, records...)
		if page.Token = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Errorf("by pages (-all +paged):\n%s", diff)
	}
	if err := s.CompleteRecord(t.Context(), "none", audit.Failed); !problem.Is(err, problem.NotFound) {
		t.Errorf("missing record: got %v, want not_found", err)
	}
	checkDeletion(t, s, all)
}

func checkDeletion(t *testing.T, s *store.Store, all []audit.Record) {
	t.Helper()
	n, err := s.DeleteRecords(t.Context(), all[2].At, 1)
	more, err2 := s.DeleteRecords(t.Context(), all[2].At, 100)
	if err := errors.Join(err, err2); err != nil || n != 1 || more != 1 {
		t.Fatalf("got %d and %d deleted, %v, want 1 and 1", n, more, err)
	}
	check.Equal(t, "left", all[:3], recorded(t, s, audit.Query{Project: "shop"}))
}

func errorOf[T any](_ T, err error) error { return err }
