package apps

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func (o *office) issue(name string, role app.Role) wire.IssuedToken {
	o.Helper()
	return functest.Read[wire.IssuedToken](o.as("ada").post(o.at("/tokens"), fmt.Sprintf(`{"name":%q,"role":%q}`, name, role)), 201)
}

func (o *office) with(token string) person { return person{office: o, bearer: token} }

func (o *office) tokens(as person) []wire.Token {
	o.Helper()
	return functest.Read[wire.List[wire.Token]](as.get(o.at("/tokens")), 200).Items
}

func TestTokens(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	before := time.Now()
	issued := o.issue("nightly", app.Developer)
	if issued.Name != "nightly" || issued.Role != "developer" || issued.Status != "active" || issued.CreatedBy != "ada" || issued.LastUsedAt != nil ||
		issued.ExpiresAt.Before(before.AddDate(0, 0, 90).Truncate(time.Second)) || issued.ExpiresAt.After(time.Now().AddDate(0, 0, 90)) {
		t.Errorf("issued %+v", issued.Token)
	}
	for _, name := range []string{"ada", "dev", "vic", "root"} {
		if diff := cmp.Diff([]wire.Token{issued.Token}, o.tokens(o.as(name))); diff != "" {
			t.Errorf("tokens for %s (-want +got):\n%s", name, diff)
		}
	}
	if list := string(o.as("ada").get(o.at("/tokens")).Is(200).Body); strings.Contains(list, issued.FullToken) || strings.Contains(list, "hash") {
		t.Errorf("the list contains a secret: %s", list)
	}
	check.Equal(t, "the token", issued.Token, functest.Read[wire.Token](o.as("vic").get(o.at("/tokens/"+issued.ID)), 200))
	o.as("root").post("/projects", `{"name":"other-`+o.project[:8]+`"}`).Is(201)
	for _, path := range []string{"/projects/other-" + o.project[:8] + "/tokens/" + issued.ID, o.at("/tokens/token-000000000000"), o.at("/tokens/x")} {
		o.as("root").get(path).Refused(404, "not_found")
	}
	o.as("eve").get(o.at("/tokens")).Refused(403, "forbidden")
	o.as("eve").get(o.at("/tokens/"+issued.ID)).Refused(403, "forbidden")
	for _, name := range []string{"dev", "vic", "eve"} {
		o.as(name).post(o.at("/tokens"), `{"name":"x","role":"viewer"}`).Refused(403, "forbidden")
		o.as(name).delete(o.at("/tokens/"+issued.ID)).Refused(403, "forbidden")
	}
	o.as("ada").get(o.at("/tokens?page_size=0")).Refused(400, "invalid_page")

	o.with(issued.FullToken).get(o.at("")).Is(200)
	used := o.tokens(o.as("vic"))
	if used[0].LastUsedAt == nil || used[0].LastUsedAt.Before(before) {
		t.Errorf("used token: %+v", used[0])
	}
	o.as("ada").delete(o.at("/tokens/token-000000000000")).Refused(404, "not_found")
	o.as("ada").delete(o.at("/tokens/nightly")).Refused(404, "not_found")
	none := 0
	check.Equal(t, "revoked without keys", wire.RevokedToken{KeyCount: &none, Keys: []wire.TokenKey{}}, functest.Read[wire.RevokedToken](o.as("ada").delete(o.at("/tokens/"+issued.ID)), 200))
	o.as("ada").delete(o.at("/tokens/"+issued.ID)).Refused(404, "not_found")
	o.with(issued.FullToken).get(o.at("")).Refused(401, "unauthenticated")
	if left := o.tokens(o.as("ada")); len(left) != 0 {
		t.Errorf("remaining tokens: %+v", left)
	}
}

func TestRevocationListsKeys(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	issued := o.issue("nightly", app.Developer)
	of := plan.Plan{ID: "plan-a", Namespace: o.namespace(), Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1}}
	if _, err := o.store.CreatePlan(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	ctx := reqctx.WithActor(t.Context(), reqctx.Actor{Kind: reqctx.Token, Name: "token:nightly"})
	for n := range maxTokenKeys + 1 {
		k := apikey.Key{
			Prefix: apikey.Prefix(fmt.Sprintf("issued%02x", n)), Project: o.project, Environment: "prod", Namespace: o.namespace(), Plan: of.ID,
			Name: "batch", Status: apikey.Active, CreatedBy: "token:nightly",
		}
		if _, err := o.store.IssueKey(ctx, k, apikey.Request{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	got := functest.Read[wire.RevokedToken](o.as("ada").delete(o.at("/tokens/"+issued.ID)), 200)
	if got.KeyCount == nil || *got.KeyCount != maxTokenKeys+1 || len(got.Keys) != maxTokenKeys {
		t.Fatalf("got %+v, want %d keys", got, maxTokenKeys+1)
	}
	want := wire.TokenKey{NamedKey: wire.NamedKey{KeyID: "key-issued00", Prefix: "issued00", Name: "batch"}, Environment: "prod"}
	check.Equal(t, "the first key", want, got.Keys[0])
}

func TestCreateTokenRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.issue("taken", app.Viewer)
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", `{}`, 422, "missing_field"},
		{"no role", `{"name":"a"}`, 422, "missing_field"},
		{"no name", `{"role":"viewer"}`, 422, "missing_field"},
		{"a bad name", `{"name":"token:a","role":"viewer"}`, 422, "invalid_name"},
		{"an empty name", `{"name":"","role":"viewer"}`, 422, "invalid_name"},
		{"another's id", `{"name":"token-ab12cd34ef56","role":"viewer"}`, 422, "invalid_name"},
		{"taken", `{"name":"taken","role":"viewer"}`, 409, "already_exists"},
		{"a bad role", `{"name":"a","role":"admin"}`, 422, "invalid_role"},
		{"past", `{"name":"a","role":"viewer","expires_at":"2020-01-01T00:00:00Z"}`, 422, "expiry_in_past"},
		{"too late", `{"name":"a","role":"viewer","expires_at":"` + in(367*24*time.Hour) + `"}`, 422, "invalid_expiry"},
		{"no time", `{"name":"a","role":"viewer","expires_at":"90d"}`, 422, "invalid_expiry"},
		{"an unknown field", `{"name":"a","role":"viewer","admin":true}`, 400, "unknown_field"},
		{"a wrong type", `{"name":7,"role":"viewer"}`, 400, "wrong_type"},
	}
	for _, tt := range tests {
		o.as("ada").post(o.at("/tokens"), tt.body).Refused(tt.status, problem.Code(tt.code))
	}
	at := in(366*24*time.Hour - time.Minute)
	got := functest.Read[wire.IssuedToken](o.as("ada").post(o.at("/tokens"), `{"name":"year","role":"viewer","expires_at":"`+at+`"}`), 201)
	if got.ExpiresAt.Format(time.RFC3339) != at {
		t.Errorf("expiry: got %s, want %s", got.ExpiresAt, at)
	}
}

func TestTokenMayWhatItsRoleMay(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	other := o.project + "-b"
	o.as("root").post("/projects", `{"name":"`+other+`"}`).Is(201)
	viewer, developer, owner := o.issue("v", app.Viewer), o.issue("d", app.Developer), o.issue("o", app.Owner)

	o.with(viewer.FullToken).get(o.apps("")).Is(200)
	o.with(viewer.FullToken).post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v1"}`).Refused(403, "forbidden")
	o.with(developer.FullToken).post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v1"}`).Is(201)
	o.with(developer.FullToken).get(o.at("/audit")).Refused(403, "forbidden")
	o.with(owner.FullToken).get(o.at("/audit")).Is(200)
	o.with(owner.FullToken).post(o.at("/environments"), `{"name":"next"}`).Is(201)
	if rev, err := o.store.Deployment(t.Context(), app.Ref{Namespace: o.namespace(), Name: "hello"}, 1); err != nil || rev.Actor != "token:d" {
		t.Errorf("actor: got %q, %v", rev.Actor, err)
	}

	projects := functest.Read[wire.List[wire.Project]](o.with(owner.FullToken).get("/projects"), 200).Items
	want := []wire.Project{{Name: o.project, Role: "owner", LeakPolicy: "disable", Registries: []string{}}}
	if diff := cmp.Diff(want, projects, cmpopts.IgnoreFields(wire.Project{}, "CreatedAt")); diff != "" {
		t.Errorf("projects of a token (-want +got):\n%s", diff)
	}
	o.with(owner.FullToken).get("/projects?page_token=c2hvcA").Refused(400, "invalid_page")

	for _, token := range []wire.IssuedToken{viewer, developer, owner} {
		as := o.with(token.FullToken)
		for _, elsewhere := range []string{"/projects/" + other, "/projects/none", "/projects/" + other + "/tokens", "/projects/" + other + "/members"} {
			if got, outsider := as.get(elsewhere).Is(403), o.as("eve").get(elsewhere).Is(403); string(got.Body) != string(outsider.Body) {
				t.Errorf("%s: got %s, want %s as without access", elsewhere, got.Body, outsider.Body)
			}
		}
		as.post("/projects", `{"name":"mine"}`).Refused(403, "forbidden")
		as.get("/audit").Refused(403, "forbidden")
		as.put(o.at("/members"), `{"members":[{"username":"eve","role":"owner"}]}`).Refused(403, "forbidden")
		as.delete(o.at("/members/vic")).Refused(403, "forbidden")
		as.post(o.at("/tokens"), `{"name":"more","role":"viewer"}`).Refused(403, "forbidden")
		as.delete(o.at("/tokens/"+viewer.ID)).Refused(403, "forbidden")
		as.delete(o.at("/tokens/"+token.ID)).Refused(403, "forbidden")
	}
	if n := len(o.tokens(o.as("ada"))); n != 3 {
		t.Errorf("got %d tokens", n)
	}
}

func TestTokenOutlivesItsMaker(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	issued := o.issue("nightly", app.Owner)
	o.as("root").put(o.at("/members"), `{"members":[{"username":"eve","role":"owner"}]}`).Is(200)
	o.as("ada").get(o.at("")).Refused(403, "forbidden")
	o.with(issued.FullToken).delete(o.at("/environments/prod")).Is(204)
	o.as("eve").delete(o.at("/tokens/" + issued.ID)).Is(200)

	records, _, err := o.store.Records(t.Context(), audit.Query{Project: o.project, Actor: "token:nightly"}, store.Page{Size: 10})
	if err != nil || len(records) != 1 || records[0].Actor.Kind != "token" || records[0].Action != audit.DeleteEnvironment {
		t.Errorf("records %+v, %v", records, err)
	}
	again := functest.Read[wire.IssuedToken](o.as("eve").post(o.at("/tokens"), `{"name":"nightly","role":"viewer"}`), 201)
	o.as("eve").delete(o.at("")).Is(204)
	o.with(again.FullToken).get("/projects").Refused(401, "unauthenticated")
	o.as("root").post("/projects", `{"name":"`+o.project+`"}`).Is(201)
	o.with(again.FullToken).get(o.at("")).Refused(401, "unauthenticated")
	if left := o.tokens(o.as("root")); len(left) != 0 {
		t.Errorf("tokens of the new project: %+v", left)
	}
}
