package apps

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestCreateApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	got := functest.Read[wire.App](o.as("dev").post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v1"}`), 201)
	want := wire.App{
		Name: "hello", Project: o.project, Environment: "prod", Host: "hello." + o.namespace() + ".localhost", Port: 8080,
		URL: "http://hello." + o.namespace() + ".localhost:8080", Kind: "image", Image: "registry.example/hello:v1",
		Preflight: "app", Gate: wire.Gate{State: "ungated", Since: got.Gate.Since}, Revision: 1,
		Deployed: &wire.Deployed{At: got.Gate.Since, Status: "rolling_out"},
	}
	check.Equal(t, "app", want, got)
	read := functest.Read[wire.App](o.as("vic").get(o.apps("/hello")), 200)
	if !cmp.Equal(want, read) {
		t.Errorf("read (-want +got):\n%s", cmp.Diff(want, read))
	}
	check.Equal(t, "in the cluster", cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteOpen, StripStale: true}, o.state("hello"))
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v2"}`).Refused(409, "already_exists")
	o.as("vic").post(o.apps(""), `{"name":"other","image":"registry.example/hello:v1"}`).Refused(403, "forbidden")
	o.as("eve").get(o.apps("/hello")).Refused(403, "forbidden")
	o.as("vic").get(o.apps("/none")).Refused(404, "not_found")
	o.as("vic").get(o.apps("/..%2f..%2fx")).Refused(404, "not_found")
	o.as("vic").get(o.at("/environments/none/apps")).Refused(404, "not_found")
}

func TestCreateAppNameTaken(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	kube, err := kubernetes.NewForConfig(clustertest.Config(t))
	check.OK(t, err)
	check.OK(t, o.cluster.EnsureNamespace(t.Context(), o.namespace()))
	services := kube.CoreV1().Services(o.namespace())
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	body := `{"name":"hello","image":"registry.example/hello:v1"}`
	o.as("dev").post(o.apps(""), body).Refused(409, "name_taken")
	o.as("dev").get(o.apps("/hello")).Refused(404, "not_found")
	change := func(kind types.PatchType, patch string) {
		t.Helper()
		if _, err := services.Patch(t.Context(), "hello", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(types.MergePatchType, `{"metadata":{"annotations":{"sluice.dev/adopt":"true"}}}`)
	o.as("dev").post(o.apps(""), body).Refused(409, "name_taken") // two ports need names
	change(types.JSONPatchType, `[{"op":"add","path":"/spec/ports/0/name","value":"first"}]`)
	o.as("dev").post(o.apps(""), body).Is(201)
	o.as("dev").delete(o.apps("/hello")).Is(200)
	if _, err := services.Get(t.Context(), "hello", metav1.GetOptions{}); err != nil {
		t.Errorf("adopted Service: %v", err)
	}
}

func TestFirstRevision(t *testing.T) {
	t.Parallel()
	const digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	o := newOffice(t)
	o.registry = tags{"registry.example/known:v1": digest}
	o.start(o.cluster)
	tests := []struct {
		name, image, runs string
		digest, note      string
	}{
		{"known", "registry.example/known:v1", "registry.example/known:v1@" + digest, digest, ""},
		{"unknown", "registry.example/unknown:v1", "registry.example/unknown:v1", "", "Not asked."},
	}
	for _, tt := range tests {
		got := functest.Read[wire.App](o.as("dev").post(o.apps(""), `{"name":"`+tt.name+`","image":"`+tt.image+`"}`), 201)
		a, err := o.store.App(t.Context(), o.namespace(), tt.name)
		if err != nil || got.Image != tt.runs || a.Image != tt.runs {
			t.Errorf("%s: image: got %s in the response, %s in the document, %v; want %s", tt.name, got.Image, a.Image, err, tt.runs)
		}
		r, err := o.store.Deployment(t.Context(), a.Ref(), 1)
		check.OK(t, err)
		want := deploy.Revision{
			Number: 1, Image: tt.image, Digest: tt.digest, Trigger: deploy.Manual, Actor: "dev", Note: tt.note,
			Status: deploy.RollingOut, DeployedAt: r.DeployedAt,
		}
		check.Equal(t, tt.name, want, r)
		if s := o.state(tt.name); s.Deployment != cluster.Right {
			t.Errorf("%s: in the cluster: %+v", tt.name, s)
		}
	}
}

func TestCreateGitApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	body := `{"name":"built","port":3000,"host":"Built.Example.COM","git_source":{"repository":"https://git.example/shop.git","branch":"main","path":"web"}}`
	got := functest.Read[wire.App](o.as("dev").post(o.apps(""), body), 201)
	if got.Kind != "git" || got.Image != "" || got.Revision != 0 || got.Port != 3000 || got.Host != "built.example.com" ||
		*got.GitSource != (wire.GitSource{Repository: "https://git.example/shop.git", Branch: "main", Path: "web"}) {
		t.Errorf("app %+v", got)
	}
	check.Equal(t, "in the cluster", cluster.State{Deployment: cluster.Right, Service: cluster.Right, Route: cluster.RouteOpen, StripStale: true}, o.state("built"))
	o.as("dev").post(o.apps(""), `{"name":"second","host":"built.example.com","image":"a:1"}`).Refused(409, "host_taken")

	pending, _, err := o.store.PendingBuilds(t.Context(), store.Page{Size: 10})
	if diff := cmp.Diff([]store.PendingBuild{{App: app.Ref{Namespace: o.namespace(), Name: "built"}, Number: 1}}, pending); err != nil || diff != "" {
		t.Fatalf("builds to start, %v (-want +got):\n%s", err, diff)
	}
	b, err := o.store.Build(t.Context(), pending[0].App, 1)
	if err != nil || b.Status != deploy.Queued || b.Trigger != deploy.Manual || b.Actor != "dev" || b.Commit != "" || b.Source.Path != "web" {
		t.Errorf("the first build: %+v, %v", b, err)
	}
}

func TestBadApps(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	long := strings.Repeat("a.", 127) + "aa"
	tests := []struct {
		name, rest string // rest is the text after the app's name
		status     int
		code       string
	}{
		{"neither image nor source", ``, 422, "missing_field"},
		{"both", `,"image":"a:1","git_source":{"repository":"https://g.example/x","branch":"main"}`, 422, "invalid_git_source"},
		{"no tag", `,"image":"registry.example/hello"`, 422, "invalid_image"},
		{"a port is no tag", `,"image":"registry.example:5000/hello"`, 422, "invalid_image"},
		{"empty image", `,"image":""`, 422, "invalid_image"},
		{"image with a blank", `,"image":"a b:1"`, 422, "invalid_image"},
		{"upper case repository", `,"image":"registry.example/Hello:1"`, 422, "invalid_image"},
		{"short digest", `,"image":"a@sha256:12"`, 422, "invalid_image"},
		{"image is a number", `,"image":1`, 400, "wrong_type"},
		{"port 0", `,"image":"a:1","port":0`, 422, "invalid_port"},
		{"negative port", `,"image":"a:1","port":-1`, 422, "invalid_port"},
		{"port too high", `,"image":"a:1","port":65536`, 422, "invalid_port"},
		{"huge port", `,"image":"a:1","port":99999999999999999999`, 400, "wrong_type"},
		{"port with a fraction", `,"image":"a:1","port":80.5`, 400, "wrong_type"},
		{"port is text", `,"image":"a:1","port":"80"`, 400, "wrong_type"},
		{"empty host", `,"image":"a:1","host":""`, 422, "invalid_host"},
		{"one label", `,"image":"a:1","host":"hello"`, 422, "invalid_host"},
		{"an address", `,"image":"a:1","host":"10.0.0.1"`, 422, "invalid_host"},
		{"host with a port", `,"image":"a:1","host":"a.example.com:80"`, 422, "invalid_host"},
		{"a wildcard", `,"image":"a:1","host":"*.example.com"`, 422, "invalid_host"},
		{"a rule", "," + `"image":"a:1","host":"a.b` + "`" + `) || PathPrefix(` + "`/" + `"`, 422, "invalid_host"},
		{"a line break", `,"image":"a:1","host":"a.example.com\n"`, 422, "invalid_host"},
		{"a dot at the end", `,"image":"a:1","host":"a.example.com."`, 422, "invalid_host"},
		{"too long a host", `,"image":"a:1","host":"` + long + `"`, 422, "invalid_host"},
		{"not ASCII", `,"image":"a:1","host":"münchen.example.com"`, 422, "invalid_host"},
		{"a reserved host", `,"image":"a:1","host":"Console.example.com"`, 422, "invalid_host"},
		{"below a reserved host", `,"image":"a:1","host":"x.y.sluice.example.com"`, 422, "invalid_host"},
		{"the domain itself", `,"image":"a:1","host":"localhost"`, 422, "invalid_host"},
		{"another's default", `,"image":"a:1","host":"hello.bank-prod.localhost"`, 422, "invalid_host"},
		{"unknown preflight", `,"image":"a:1","preflight":"ignore"`, 422, "invalid_preflight"},
		{"empty preflight", `,"image":"a:1","preflight":""`, 422, "invalid_preflight"},
		{"preflight is a boolean", `,"image":"a:1","preflight":true`, 400, "wrong_type"},
		{"require_api_key", `,"image":"a:1","require_api_key":true`, 400, "unknown_field"},
		{"empty source", `,"git_source":{}`, 422, "invalid_git_source"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o.as("dev").post(o.apps(""), `{"name":"hello"`+tt.rest+`}`).Refused(tt.status, problem.Code(tt.code))
		})
	}
	if got := functest.Read[wire.List[wire.App]](o.as("vic").get(o.apps("")), 200); len(got.Items) != 0 {
		t.Errorf("stored %+v", got.Items)
	}
	o.as("dev").post(o.apps(""), `{"name":"a","image":"a:1","host":"hello.`+o.namespace()+`.localhost"}`).Is(201)
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"a:1"}`).Refused(409, "host_taken")
}

// TestAppNames tests that names without a valid Service are rejected before anything is stored.
func TestAppNames(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, name := range []string{"1st", "0", "", "-a", "Hello", "a.b"} {
		for _, rest := range []string{`,"image":"a:1"`, `,"git_source":{"repository":"https://g.example/x","branch":"main"}`} {
			o.as("dev").post(o.apps(""), `{"name":"`+name+`"`+rest+`}`).Refused(422, "invalid_name")
		}
	}
	o.as("dev").post(o.apps(""), `{"image":"a:1"}`).Refused(422, "missing_field")
	if got := functest.Read[wire.List[wire.App]](o.as("vic").get(o.apps("")), 200); len(got.Items) != 0 {
		t.Errorf("stored %+v", got.Items)
	}
	o.as("ada").post(o.at("/environments"), `{"name":"2nd"}`).Is(201)
}

func TestListApps(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for i := range 3 {
		o.createApp(fmt.Sprintf("app-%d", i))
	}
	var got []string
	for query := "?page_size=2"; ; {
		list := functest.Read[wire.List[wire.App]](o.as("vic").get(o.apps(query)), 200)
		for _, a := range list.Items {
			got = append(got, a.Name)
		}
		if list.NextPageToken == "" {
			break
		}
		query = "?page_size=2&page_token=" + list.NextPageToken
	}
	check.Equal(t, "apps", []string{"app-0", "app-1", "app-2"}, got)
}

func TestRequireAPIKey(t *testing.T) {
	t.Parallel()
	told := make(chan http.Header, 9)
	wiring := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header }))
	t.Cleanup(wiring.Close)
	o := newOffice(t)
	o.cfg.WiringURL = wiring.URL
	o.start(o.cluster)
	o.createApp("hello")
	gate := func(who, body string) wire.App {
		return functest.Read[wire.App](o.as(who).patch(o.apps("/hello"), body), 200)
	}
	if got := gate("dev", `{}`); got.RequireAPIKey || got.Gate.State != "ungated" {
		t.Errorf("after an empty change: %+v", got)
	}
	if got := gate("dev", `{"require_api_key":true}`); !got.RequireAPIKey || got.Gate.State != "pending" {
		t.Errorf("switched on: %+v", got)
	}
	first := <-told
	if first.Get("Ce-Type") != app.GateRequested || first.Get("Ce-Subject") != o.namespace()+".hello" || first.Get("Ce-Id") == "" {
		t.Errorf("event: got %v", first)
	}
	since := gate("dev", `{"require_api_key":true}`).Gate.Since
	if got := gate("dev", `{"require_api_key":true}`); !got.Gate.Since.Equal(since) {
		t.Errorf("second switch reset the gate: %v", got.Gate)
	}
	if got := gate("dev", `{"require_api_key":false}`); got.RequireAPIKey || got.Gate.State != "releasing" {
		t.Errorf("switched off: %+v", got)
	}
	o.as("vic").patch(o.apps("/hello"), `{"require_api_key":true}`).Refused(403, "forbidden")
	o.as("dev").patch(o.apps("/none"), `{"require_api_key":true}`).Refused(404, "not_found")
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":"yes"}`).Refused(400, "wrong_type")
	o.as("dev").patch(o.apps("/hello"), `{"image":"a:2"}`).Refused(400, "unknown_field")
	o.as("dev").patch(o.apps("/hello"), ``).Refused(400, "malformed_json")
}

func (o *office) set(body string) wire.App {
	o.Helper()
	o.as("dev").patch(o.apps("/hello"), body).Is(200)
	return functest.Read[wire.App](o.as("vic").get(o.apps("/hello")), 200)
}

// TestPreflight tests that a change of preflight makes a required gate pending (promise G10).
func TestPreflight(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	notified := o.watchWiring()
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"a:1","preflight":"refuse"}`).Is(201)
	if got := o.set(`{}`); got.Preflight != "refuse" || got.Gate.State != "ungated" {
		t.Errorf("created: %+v", got)
	}
	if got := o.set(`{"preflight":"app"}`); got.Preflight != "app" || got.Gate.State != "ungated" {
		t.Errorf("changed while off: %+v", got)
	}
	if got := o.set(`{"preflight":"refuse","require_api_key":true}`); got.Preflight != "refuse" || got.Gate.State != "pending" {
		t.Errorf("changed and switched on: %+v", got)
	}
	ref := app.Ref{Namespace: o.namespace(), Name: "hello"}
	if got := <-notified; got != ref.String() {
		t.Errorf("event: got %q", got)
	}
	engaged, err := o.store.UpdateApp(t.Context(), ref, func(a app.App) (app.App, error) {
		a.Gate.State = app.Engaged
		return a, nil
	})
	check.OK(t, err)
	if got := o.set(`{"preflight":"refuse"}`); got.Gate.State != "engaged" || !got.Gate.Since.Equal(engaged.Gate.Since) {
		t.Errorf("after an unchanged value: %+v", got.Gate)
	}
	if got := o.set(`{"preflight":"app"}`); got.Preflight != "app" || got.Gate.State != "pending" || !got.Gate.Since.After(engaged.Gate.Since) {
		t.Errorf("changed while engaged: %+v", got)
	}
	<-notified
	o.as("vic").patch(o.apps("/hello"), `{"preflight":"refuse"}`).Refused(403, "forbidden")
	o.as("dev").patch(o.apps("/hello"), `{"preflight":"REFUSE"}`).Refused(422, "invalid_preflight")
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":false,"preflight":""}`).Refused(422, "invalid_preflight")
	if got := o.set(`{}`); !got.RequireAPIKey || got.Preflight != "app" {
		t.Errorf("after rejected changes: %+v", got)
	}
}

// TestChangeAddress tests that a change of host or port makes a required gate pending (promises
// A7, G2).
func TestChangeAddress(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	notified := o.watchWiring()
	hello, other := o.createApp("hello"), o.createApp("other")
	if got := o.set(`{"host":"Hello.Example.com","port":3000}`); got.Host != "hello.example.com" || got.URL != "http://hello.example.com:8080" || got.Port != 3000 || got.Gate.State != "ungated" {
		t.Errorf("changed while off: %+v", got)
	}
	if got := <-notified; got != hello.Ref().String() {
		t.Errorf("event: got %q", got)
	}
	if got := o.state("hello"); got.Route != cluster.RouteElsewhere || got.Service != cluster.Differs || got.Deployment != cluster.Differs {
		t.Errorf("before the resync: %+v", got)
	}
	for body, want := range map[string]string{
		`{"host":"www.example.com"}`:               "pending",
		`{"port":3001}`:                            "pending",
		`{"host":"HELLO.example.com","port":3000}`: "engaged",
	} {
		engaged, err := o.store.UpdateApp(t.Context(), hello.Ref(), func(a app.App) (app.App, error) {
			a.Host, a.Port, a.RequireAPIKey, a.Gate.State = "hello.example.com", 3000, true, app.Engaged
			return a, nil
		})
		check.OK(t, err)
		if got := o.set(body).Gate; got.State != want || got.Since.After(engaged.Gate.Since) != (want == "pending") {
			t.Errorf("%s: gate: got %+v, want %s", body, got, want)
		}
	}
	o.as("dev").patch(o.apps("/hello"), `{"host":"`+other.Host+`"}`).Refused(409, "host_taken")
	o.as("dev").patch(o.apps("/hello"), `{"host":"console.example.com"}`).Refused(422, "invalid_host")
	o.as("dev").patch(o.apps("/hello"), `{"host":"hello"}`).Refused(422, "invalid_host")
	o.as("dev").patch(o.apps("/hello"), `{"port":0}`).Refused(422, "invalid_port")
	o.as("vic").patch(o.apps("/hello"), `{"port":80}`).Refused(403, "forbidden")
}

func TestWiringThatHangsDelaysNobody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	wiring := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(wiring.Close)
	t.Cleanup(func() { close(release) })
	o := newOffice(t)
	o.cfg.WiringURL = wiring.URL
	o.start(o.cluster)
	o.createApp("hello")
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":true}`).Is(200)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.service.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestDeleteApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	a := o.createApp("hello")
	o.as("ada").delete(o.at("/environments/prod")).Refused(409, "not_empty")
	o.as("vic").delete(o.apps("/hello")).Refused(403, "forbidden")
	o.as("dev").delete(o.apps("/hello")).Is(200)
	seen, err := o.cluster.Objects(t.Context(), a.Ref())
	if err != nil || !seen.None() {
		t.Errorf("objects remain after deletion: %v", err)
	}
	o.as("dev").delete(o.apps("/hello")).Refused(404, "not_found")
	o.createApp("hello") // the name and the host are available again
}

// TestReleasedHost tests that another project cannot have the host of a deleted app until an
// admin releases it, and does not learn the previous project.
func TestReleasedHost(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	const body = `{"name":"hello","host":"www.example.com","image":"registry.example/hello:v1"}`
	other := o.project + "x"
	o.as("root").post("/projects", `{"name":"`+other+`"}`).Is(201)
	o.as("root").post("/projects/"+other+"/environments", `{"name":"prod"}`).Is(201)
	foreign := func() functest.Answer { return o.as("root").post("/projects/"+other+"/environments/prod/apps", body) }

	o.as("dev").post(o.apps(""), body).Is(201)
	deleted := functest.Read[wire.DeletedApp](o.as("dev").delete(o.apps("/hello")), 200)
	if in := time.Until(deleted.HostReservedUntil).Round(time.Hour); deleted.Host != "www.example.com" || in != store.HostReserved {
		t.Errorf("host: got %s, reserved for %v", deleted.Host, in)
	}
	refused := foreign()
	refused.Refused(409, "host_reserved")
	if strings.Contains(string(refused.Body), o.project) {
		t.Errorf("the response names the project: %s", refused.Body)
	}
	o.as("ada").get("/host-reservations").Refused(403, "forbidden")
	o.as("ada").delete("/host-reservations/www.example.com").Refused(403, "forbidden")
	list := functest.Read[wire.List[wire.HostReservation]](o.as("root").get("/host-reservations"), 200)
	if len(list.Items) != 1 || list.Items[0].Host != "www.example.com" || list.Items[0].Project != o.project || list.Items[0].App != o.namespace()+".hello" {
		t.Errorf("reservations: got %+v", list.Items)
	}
	o.as("root").delete("/host-reservations/WWW.example.com").Is(204)
	o.as("root").delete("/host-reservations/www.example.com").Refused(404, "not_found")
	foreign().Is(201)
}

func TestDeleteAppListsKeys(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	a := o.createApp("hello")
	p := plan.Plan{ID: "plan-a", Namespace: a.Namespace, Name: "a", Limits: plan.Limits{Rate: 1, Burst: 1}}
	if _, err := o.store.CreatePlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for prefix, apps := range map[apikey.Prefix][]string{"aaaaaaaa": {"hello"}, "bbbbbbbb": nil} {
		k := apikey.Key{Prefix: prefix, Project: a.Project, Environment: a.Environment, Namespace: a.Namespace, Plan: p.ID, Name: "ci", Apps: apps, Status: apikey.Active}
		if _, err := o.store.IssueKey(t.Context(), k, apikey.Request{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	got := functest.Read[wire.DeletedApp](o.as("dev").delete(o.apps("/hello")), 200)
	want := wire.DeletedApp{KeyCount: 1, Keys: []wire.NarrowedKey{{KeyID: "key-aaaaaaaa", Name: "ci", Apps: []string{}, Scope: "none"}}, Host: a.Host, HostReservedUntil: got.HostReservedUntil}
	check.Equal(t, "response", want, got)
	o.createApp("hello")
	if k, err := o.store.Key(t.Context(), "key-aaaaaaaa"); err != nil || slices.Contains(k.Apps, "hello") || len(k.Apps) == 0 {
		t.Errorf("scope: got %q, %v", k.Apps, err)
	}
}

type faultyCluster struct {
	Cluster
	place, withdraw error
	beforePlace     func()
	beforeWithdraw  func() // called once
	noNamespace     bool
}

func (c *faultyCluster) Apply(ctx context.Context, o cluster.Objects, a app.App) error {
	if c.beforePlace != nil {
		c.beforePlace()
	}
	if c.place != nil {
		return c.place
	}
	return c.Cluster.Apply(ctx, o, a)
}

func (c *faultyCluster) DeleteIf(ctx context.Context, ref app.Ref, allowed func(context.Context) (bool, error)) error {
	if before := c.beforeWithdraw; before != nil {
		c.beforeWithdraw = nil
		before()
	}
	if c.withdraw != nil {
		return c.withdraw
	}
	return c.Cluster.DeleteIf(ctx, ref, allowed)
}

func (c *faultyCluster) NamespaceExists(ctx context.Context, name string) (bool, error) {
	exists, err := c.Cluster.NamespaceExists(ctx, name)
	return exists && !c.noNamespace, err
}

func TestLateDeletion(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	faulty := &faultyCluster{Cluster: o.cluster}
	o.start(faulty)
	o.createApp("hello")
	var later app.App
	var token hook.Token
	faulty.beforeWithdraw = func() {
		o.as("dev").delete(o.apps("/hello")).Is(200)
		later = o.createApp("hello")
		o.as("dev").post(o.apps("/hello/webhook"), "").Is(200)
		token = o.token("hello")
	}
	o.as("dev").delete(o.apps("/hello")).Is(200)
	if a, err := o.store.App(t.Context(), o.namespace(), "hello"); err != nil || !a.CreatedAt.Equal(later.CreatedAt) {
		t.Fatalf("got %+v, %v; want the later app", a, err)
	}
	if s := o.state("hello"); s.Deployment != cluster.Right || s.Service != cluster.Right || s.Route != cluster.RouteOpen {
		t.Errorf("in the cluster: %+v", s)
	}
	if got := o.token("hello"); got != token {
		t.Error("the later app's token was deleted")
	}
}

func TestLateUpdate(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	a := o.createApp("hello")
	o.as("dev").delete(o.apps("/hello")).Is(200)
	o.createApp("hello")
	_, err := o.service.change(t.Context(), httpapi.Scope{App: a}, func(*app.App) error { return nil })
	if !problem.Is(err, problem.NotFound) {
		t.Errorf("got %v, want not_found", err)
	}
}

func TestClusterTrouble(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	faulty := &faultyCluster{Cluster: o.cluster, place: problem.FromCode(problem.Unavailable)}
	o.start(faulty)
	create := `{"name":"hello","image":"registry.example/hello:v1"}`
	o.as("dev").post(o.apps(""), create).Refused(503, "unavailable")
	o.as("dev").post(o.apps(""), create).Refused(409, "already_exists")
	o.as("vic").get(o.apps("/hello")).Is(200) // recorded

	faulty.place = errors.New("secret detail")
	answer := o.as("dev").post(o.apps(""), `{"name":"other","image":"registry.example/hello:v1"}`)
	answer.Refused(500, "internal")
	if strings.Contains(string(answer.Body), "secret") {
		t.Errorf("the response contains the cause: %s", answer.Body)
	}

	faulty.withdraw = problem.FromCode(problem.Unavailable)
	o.as("dev").delete(o.apps("/hello")).Refused(503, "unavailable")
	o.as("vic").get(o.apps("/hello")).Is(200)
	faulty.withdraw = nil
	o.as("dev").delete(o.apps("/hello")).Is(200)
}

// TestDeletedWhileBeingMade deletes an app after its document and before its objects are written.
func TestDeletedWhileBeingMade(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ref := app.Ref{Namespace: o.namespace(), Name: "hello"}
	faulty := &faultyCluster{Cluster: o.cluster}
	faulty.beforePlace = func() {
		if err := storetest.DeleteApp(t.Context(), o.store, ref); err != nil {
			t.Error(err)
		}
	}
	o.start(faulty)
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v1"}`).Refused(404, "not_found")
	if seen, err := o.cluster.Objects(t.Context(), ref); err != nil || !seen.None() {
		t.Errorf("objects of a deleted app: %v", err)
	}
}

func TestConcurrentCreationsCreateOneApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var mu sync.Mutex
	got := map[int]int{}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			r := o.as("dev").post(o.apps(""), fmt.Sprintf(`{"name":"hello","image":"registry.example/hello:v%d"}`, i))
			mu.Lock()
			defer mu.Unlock()
			got[r.Status]++
		})
	}
	group.Wait()
	if got[201] != 1 || got[409] != 7 {
		t.Errorf("responses by status: got %v, want one 201 and seven 409", got)
	}
	if s := o.state("hello"); s.Deployment != cluster.Right || s.Route != cluster.RouteOpen {
		t.Errorf("in the cluster: %+v", s)
	}
}
