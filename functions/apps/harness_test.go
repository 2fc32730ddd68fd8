package apps

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// office is the function with a real store, real sessions and a real Kubernetes API. "root" is an
// admin, ada the project's owner, dev a developer, vic a viewer, and eve has no access. The
// project's name is random, because tests share the cluster.
type office struct {
	*testing.T
	cfg      Config
	store    *store.Store
	cluster  *cluster.Cluster
	registry tags
	keys     *identity.Keyring
	service  *Service
	handler  http.Handler
	project  string // with an environment "prod"
}

func newOffice(t *testing.T) *office {
	t.Helper()
	cl, err := cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &cluster.Routes{EntryPoints: []string{"web"}}, WebhookNamespace: clustertest.Namespace(t)})
	check.OK(t, err)
	o := &office{T: t, store: storetest.New(t), cluster: cl, keys: functest.Keyring(t), project: clustertest.Name(), cfg: Config{
		AppsDomain: "localhost", AppHost: "{app}.{namespace}.{domain}", AppURL: "http://{host}:8080", Routes: cluster.Routes{EntryPoints: []string{"web"}},
		ReservedHosts: []string{"console.example.com", ".sluice.example.com"}, ReservedNamespaces: []string{"sluice-system"},
		Issuers: []string{"https://token.actions.githubusercontent.com"},
	}}
	o.start(cl)
	for _, name := range []string{"root", "ada", "dev", "vic", "eve"} {
		storetest.Make(t, func() error {
			return o.store.CreateUser(t.Context(), user.User{Name: name, Version: 1, Admin: name == "root"})
		})
	}
	o.as("root").post("/projects", `{"name":"`+o.project+`"}`).Is(201)
	o.as("root").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"developer"},{"username":"vic","role":"viewer"}]}`).Is(200)
	o.as("ada").post(o.at("/environments"), `{"name":"prod"}`).Is(201)
	return o
}

type tags map[string]string

func (t tags) Resolve(_ context.Context, image string) (digest, note string) {
	if d, ok := t[image]; ok {
		return d, ""
	}
	return "", "Not asked."
}

func (o *office) start(c Cluster) {
	o.Helper()
	s, err := New(o.cfg, Parts{
		Store: o.store, Cluster: c, Registry: o.registry,
		Sessions: identity.NewGuard(o.keys, o.store), Log: functest.Quiet(),
	})
	check.OK(o, err)
	o.service, o.handler = s, s.Handler()
	o.Cleanup(func() {
		if err := s.Close(o.Context()); err != nil {
			o.Error(err)
		}
	})
}

func (o *office) watchWiring() <-chan string {
	o.Helper()
	notified := make(chan string, 9)
	wiring := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { notified <- r.Header.Get("Ce-Subject") }))
	o.Cleanup(wiring.Close)
	o.cfg.WiringURL = wiring.URL
	o.start(o.cluster)
	return notified
}

// at returns a path in the project, and apps one in its environment "prod".
func (o *office) at(path string) string { return "/projects/" + o.project + path }

func (o *office) apps(path string) string { return o.at("/environments/prod/apps" + path) }

func (o *office) namespace() string { return o.project + "-prod" }

func (o *office) createApp(name string) app.App {
	o.Helper()
	o.as("dev").post(o.apps(""), `{"name":"`+name+`","image":"registry.example/`+name+`:v1"}`).Is(201)
	a, err := o.store.App(o.Context(), o.namespace(), name)
	check.OK(o, err)
	return a
}

func (o *office) state(name string) cluster.State {
	o.Helper()
	ref := app.Ref{Namespace: o.namespace(), Name: name}
	seen, err := o.cluster.Objects(o.Context(), ref)
	check.OK(o, err)
	a, err := o.store.App(o.Context(), ref.Namespace, ref.Name)
	check.OK(o, err)
	return o.cluster.State(seen, a, nil)
}

type person struct {
	*office
	name string // "" without a session

	bearer string // used instead of a session
}

func (o *office) as(name string) person { return person{office: o, name: name} }

func (p person) get(path string) functest.Answer { p.Helper(); return p.do("GET", path, "") }

func (p person) post(path, body string) functest.Answer {
	p.Helper()
	return p.do("POST", path, body)
}

func (p person) put(path, body string) functest.Answer {
	p.Helper()
	return p.do("PUT", path, body)
}

func (p person) patch(path, body string) functest.Answer {
	p.Helper()
	return p.do("PATCH", path, body)
}

func (p person) delete(path string) functest.Answer { p.Helper(); return p.do("DELETE", path, "") }

func (p person) do(method, path, body string) functest.Answer {
	p.Helper()
	return p.match(method, path, body)
}

// match is do with one If-Match line for each ETag.
func (p person) match(method, path, body string, tags ...string) functest.Answer {
	p.Helper()
	if p.name != "" {
		token, err := p.keys.Sign(identity.NewSession(identity.Caller{Username: p.name, Admin: p.name == "root"}, 1, time.Now()))
		check.OK(p, err)
		p.bearer = string(token)
	}
	header := http.Header{"Content-Type": {"application/json"}, api.IfMatch: tags}
	if p.bearer != "" {
		header.Set("Authorization", "Bearer "+p.bearer)
	}
	return functest.Call{Method: method, Path: "/api/v1" + path, Body: body, Header: header}.Send(p.T, p.handler)
}
