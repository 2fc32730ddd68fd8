package apps

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestProjects(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	other := o.project + "x"
	o.as("ada").post("/projects", `{"name":"`+other+`"}`).Refused(403, "forbidden")
	o.as("").post("/projects", `{"name":"`+other+`"}`).Refused(401, "unauthenticated")
	o.as("root").post("/projects", `{"name":"`+o.project+`"}`).Refused(409, "already_exists")
	o.as("root").post("/projects", `{"name":"`+other+`"}`).Is(201)

	names := func(who string) []string {
		var names []string
		for _, p := range functest.Read[wire.List[wire.Project]](o.as(who).get("/projects"), 200).Items {
			names = append(names, p.Name+" "+p.Role)
		}
		return names
	}
	for who, want := range map[string][]string{
		"root": {o.project + " owner", other + " owner"}, "ada": {o.project + " owner"}, "vic": {o.project + " viewer"}, "eve": nil,
	} {
		check.Equal(t, "projects of "+who, want, names(who))
	}
	if got := functest.Read[wire.Project](o.as("dev").get(o.at("")), 200); got.Role != "developer" || got.CreatedAt.IsZero() {
		t.Errorf("project %+v", got)
	}
	o.as("eve").get(o.at("")).Refused(403, "forbidden")
	o.as("eve").get("/projects/none").Refused(403, "forbidden")
	o.as("root").get("/projects/none").Refused(404, "not_found")

	o.as("dev").delete("/projects/"+other).Refused(403, "forbidden")
	o.as("root").delete("/projects/" + other).Is(204)
	o.as("root").delete("/projects/"+other).Refused(404, "not_found")
	o.as("ada").delete(o.at("")).Refused(409, "not_empty")
	if got := functest.Read[wire.Environment](o.as("vic").get(o.at("/environments/prod")), 200); got.Namespace != o.namespace() || got.CreatedAt.IsZero() {
		t.Errorf("environment %+v", got)
	}
	o.as("eve").get(o.at("/environments/prod")).Refused(403, "forbidden")
	o.as("ada").delete(o.at("/environments/prod")).Is(204)
	o.as("ada").get(o.at("/environments/prod")).Refused(404, "not_found")
	o.as("ada").delete(o.at("")).Is(204)
}

func TestProjectSettings(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	policy := func() string { return functest.Read[wire.Project](o.as("vic").get(o.at("")), 200).LeakPolicy }
	if got := policy(); got != "disable" {
		t.Errorf("initial policy: got %q", got)
	}
	o.as("dev").patch(o.at(""), `{"leak_policy":"revoke"}`).Refused(403, "forbidden")
	for body, want := range map[string]string{
		`{"leak_policy":"tell"}`: "invalid_policy", `{"leak_policy":""}`: "invalid_policy", `{"leak_policy":"Revoke"}`: "invalid_policy", `{"leak_policy":null}`: "missing_field",
	} {
		o.as("ada").patch(o.at(""), body).Refused(422, problem.Code(want))
	}
	o.as("ada").patch(o.at(""), `{"name":"other"}`).Refused(400, "unknown_field")
	if got := policy(); got != "disable" {
		t.Errorf("policy after a rejected change: got %q", got)
	}
	for range 2 {
		if got := functest.Read[wire.Project](o.as("ada").patch(o.at(""), `{"leak_policy":"revoke"}`), 200); got.LeakPolicy != "revoke" || got.Role != "owner" {
			t.Errorf("response: got %+v", got)
		}
	}
	o.as("ada").patch(o.at(""), `{}`).Is(200)
	o.as("ada").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"vic","role":"viewer"}]}`).Is(200)
	if got := policy(); got != "revoke" {
		t.Errorf("policy after other changes: got %q", got)
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"malformed", `{`, 400, "malformed_json"},
		{"not UTF-8", "{\"name\":\"\xff\"}", 400, "malformed_json"},
		{"two values", `{"name":"a"} {}`, 400, "malformed_json"},
		{"a list", `[]`, 400, "wrong_type"},
		{"a number", `{"name":1}`, 400, "wrong_type"},
		{"unknown field", `{"name":"a","x":1}`, 400, "unknown_field"},
		{"no name", `{}`, 422, "missing_field"},
		{"null", `{"name":null}`, 422, "missing_field"},
		{"empty", `{"name":""}`, 422, "invalid_name"},
		{"upper case", `{"name":"Shop"}`, 422, "invalid_name"},
		{"a dot", `{"name":"a.b"}`, 422, "invalid_name"},
		{"a slash", `{"name":"a/b"}`, 422, "invalid_name"},
		{"a control character", `{"name":"a\u0000"}`, 422, "invalid_name"},
		{"a hyphen at the end", `{"name":"a-"}`, 422, "invalid_name"},
		{"too long", `{"name":"` + fmt.Sprintf("%041d", 0) + `"}`, 422, "invalid_name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o.as("root").post("/projects", tt.body).Refused(tt.status, problem.Code(tt.code))
			o.as("ada").post(o.at("/environments"), tt.body).Refused(tt.status, problem.Code(tt.code))
			o.as("dev").post(o.apps(""), tt.body).Refused(tt.status, problem.Code(tt.code))
		})
	}
	if got := functest.Read[wire.List[wire.Project]](o.as("root").get("/projects"), o.as("root").get("/projects").Status); len(got.Items) != 1 {
		t.Errorf("projects: got %v, want one", got.Items)
	}
	if got := functest.Read[wire.List[wire.Environment]](o.as("vic").get(o.at("/environments")), o.as("vic").get(o.at("/environments")).Status); len(got.Items) != 1 {
		t.Errorf("environments: got %v, want one", got.Items)
	}
	if got := functest.Read[wire.List[wire.App]](o.as("vic").get(o.apps("")), o.as("vic").get(o.apps("")).Status); len(got.Items) != 0 {
		t.Errorf("apps: got %v, want none", got.Items)
	}
}

func TestEnvironments(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.as("dev").post(o.at("/environments"), `{"name":"staging"}`).Refused(403, "forbidden")
	o.as("eve").get(o.at("/environments")).Refused(403, "forbidden")
	got := functest.Read[wire.Environment](o.as("ada").post(o.at("/environments"), `{"name":"staging"}`), 201)
	if got.Namespace != o.project+"-staging" || got.Project != o.project || got.Name != "staging" {
		t.Errorf("environment %+v", got)
	}
	if err := o.cluster.EnsureNamespace(t.Context(), got.Namespace); err != nil {
		t.Errorf("namespace: %v", err)
	}
	o.as("ada").post(o.at("/environments"), `{"name":"staging"}`).Refused(409, "already_exists")
	list := functest.Read[wire.List[wire.Environment]](o.as("vic").get(o.at("/environments?page_size=1")), 200)
	if len(list.Items) != 1 || list.NextPageToken == "" {
		t.Errorf("first page %+v", list)
	}
	list = functest.Read[wire.List[wire.Environment]](o.as("vic").get(o.at("/environments?page_size=1&page_token="+list.NextPageToken)), 200)
	if len(list.Items) != 1 || list.Items[0].Name != "staging" || list.NextPageToken != "" {
		t.Errorf("second page %+v", list)
	}
	for _, q := range []string{"page_size=0", "page_size=501", "page_size=x", "page_size=-1", "page_token=!"} {
		o.as("vic").get(o.at("/environments?"+q)).Refused(400, "invalid_page")
	}
	o.as("dev").delete(o.at("/environments/staging")).Refused(403, "forbidden")
	o.as("ada").delete(o.at("/environments/staging")).Is(204)
	o.as("ada").delete(o.at("/environments/staging")).Refused(404, "not_found")
	o.as("ada").delete(o.at("/environments/..%2fx")).Refused(404, "not_found")
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	// "{project}-x" + "prod" yields the namespace of "{project}" + "x-prod".
	o.as("root").post("/projects", `{"name":"`+o.project+`-x"}`).Is(201)
	o.as("root").post("/projects/"+o.project+"-x/environments", `{"name":"prod"}`).Is(201)
	o.as("ada").post(o.at("/environments"), `{"name":"x-prod"}`).Refused(409, "namespace_taken")
	o.as("root").get(o.at("/environments/x-prod/apps")).Refused(404, "not_found")

	for project, env := range map[string]string{"sluice": "system", "kube": "system"} {
		o.as("root").post("/projects", `{"name":"`+project+`"}`).Is(201)
		o.as("root").post("/projects/"+project+"/environments", `{"name":"`+env+`"}`).Refused(409, "namespace_taken")
	}
	long := fmt.Sprintf("%040d", 0)
	o.as("root").post("/projects", `{"name":"`+long+`"}`).Is(201)
	o.as("root").post("/projects/"+long+"/environments", `{"name":"`+long+`"}`).Refused(422, "invalid_name")
}

// TestNamespaceOfADeletedEnvironment tests that only the same project can reuse a namespace while
// the cluster still has it. A new project with the same name is another project.
func TestNamespaceOfADeletedEnvironment(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	faulty := &faultyCluster{Cluster: o.cluster}
	o.start(faulty)
	again := func() {
		t.Helper()
		o.as("root").delete(o.at("/environments/prod")).Is(204)
		o.as("root").delete(o.at("")).Is(204)
		o.as("root").post("/projects", `{"name":"`+o.project+`"}`).Is(201)
	}
	o.as("root").delete(o.at("/environments/prod")).Is(204)
	o.as("root").post(o.at("/environments"), `{"name":"prod"}`).Is(201) // its own namespace
	again()
	o.as("root").post(o.at("/environments"), `{"name":"prod"}`).Refused(409, "namespace_not_empty")
	faulty.noNamespace = true
	o.as("root").post(o.at("/environments"), `{"name":"prod"}`).Is(201)
	again()
	faulty.noNamespace = false
	o.as("root").post(o.at("/environments"), `{"name":"prod"}`).Refused(409, "namespace_not_empty")
	o.as("root").post(o.at("/environments"), `{"name":"other"}`).Is(201)
}

func TestProjectRegistries(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	registries := func() []string { return functest.Read[wire.Project](o.as("vic").get(o.at("")), 200).Registries }
	if got := registries(); got == nil || len(got) != 0 {
		t.Errorf("initial registries: got %v, want an empty list", got)
	}
	o.as("dev").patch(o.at(""), `{"registries":["ghcr.io"]}`).Refused(403, "forbidden")
	o.as("ada").patch(o.at(""), `{"registries":["https://ghcr.io"]}`).Refused(422, "invalid_registries")
	tag := o.as("ada").get(o.at("")).Is(200).Tag()
	o.as("ada").patch(o.at(""), `{"registries":["registry.example/shop"]}`).Is(200)
	if got := o.as("ada").match("PATCH", o.at(""), `{"registries":[]}`, tag); got.Status != 412 {
		t.Errorf("with a stale tag: got %d %s", got.Status, got.Body)
	}
	o.as("ada").patch(o.at(""), `{"leak_policy":"revoke"}`).Is(200)
	if got := registries(); len(got) != 1 || got[0] != "registry.example/shop" {
		t.Errorf("got %v", got)
	}
	o.as("ada").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"developer"},{"username":"vic","role":"viewer"}]}`).Is(200)
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"registry.example/other:v1"}`).Refused(422, "registry_not_allowed")
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"registry.example/shop/hello:v1"}`).Is(201)
	o.as("ada").patch(o.at(""), `{"registries":null}`).Is(200)
	o.as("dev").post(o.apps(""), `{"name":"other","image":"registry.example/other:v1"}`).Is(201)
}
