package builds

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/crds"
	emulator "github.com/sluicegate/sluice/emulators/tekton"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

const (
	token    = "0123456789abcdef0123456789abcdef"
	patience = 90 * time.Second
)

type noRegistry struct{}

func (noRegistry) Resolve(context.Context, string) (digest, note string) { return "", "Not queried." }

type told struct {
	mu sync.Mutex
	n  int
}

func (t *told) Notify(context.Context, string, app.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

func (t *told) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

var (
	sinks      sync.Map // http.Handler by namespace
	controller sync.Once
)

func deliver(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.Header.Get("Ce-Source"), "/") // /apis///namespaces/NAMESPACE//NAME
	if len(parts) == 8 {
		if h, ok := sinks.Load(parts[5]); ok {
			h.(http.Handler).ServeHTTP(w, r) //nolint:forcetypeassert // nothing else is put there
		}
	}
}

func runBuilds(t testing.TB) {
	t.Helper()
	config := clustertest.Config(t)
	controller.Do(func() {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Error(err)
			return
		}
		if err := crds.Define(t.Context(), filepath.Join("..", ".."), client, crds.Tekton()); err != nil {
			t.Error(err)
			return
		}
		sink := httptest.NewServer(http.HandlerFunc(deliver))
		c, err := emulator.New(config, emulator.Options{Sink: sink.URL + "/events/" + token, Took: 300 * time.Millisecond}, functest.Quiet())
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _ = c.Run(context.Background()) }()
	})
}

// world is the function with a real store, a real Kubernetes API and the Tekton emulator.
type world struct {
	testing.TB
	service *Service
	handler http.Handler
	store   *store.Store
	cluster *cluster.Cluster
	ref     app.Ref
	project string
	told    *told
}

func newWorld(t testing.TB, script string, with func(*Config, *Parts)) *world {
	t.Helper()
	runBuilds(t)
	cl, err := cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(t)})
	check.OK(t, err)
	w := &world{TB: t, store: storetest.New(t), cluster: cl, project: clustertest.Name(), told: &told{}}
	w.ref = app.Ref{Namespace: w.project + "-prod", Name: "hello"}
	w.addApp(script)
	cfg := Config{Token: token, ImagePrefix: "registry.example.com/built", Pipeline: "sluice-build", ServiceAccount: "default", Timeout: time.Minute, PerApp: 4, Workers: 4}
	parts := Parts{
		Store: w.store, Cluster: cl, Registry: noRegistry{}, Notifier: w.told, Sessions: functest.Sessions{}, Log: functest.Quiet(),
	}
	if with != nil {
		with(&cfg, &parts)
	}
	if w.service, err = New(cfg, parts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.service.Close)
	w.handler = w.service.Handler()
	sinks.Store(w.ref.Namespace, w.handler)
	return w
}

func source(script string) app.GitSource {
	return app.GitSource{Repository: "https://git.example.com/emulate-" + script + "/hello.git", Branch: "main"}
}

func (w *world) addApp(script string) {
	w.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	git := source(script)
	storetest.Environment(w, w.store, w.project, "prod")
	storetest.App(w, w.store, app.App{Name: "hello", Project: w.project, Environment: "prod", GitSource: &git, CreatedAt: now, UpdatedAt: now})
}

func (w *world) ask(script string) int64 {
	w.Helper()
	_, err := w.store.UpdateApp(w.Context(), w.ref, func(a app.App) (app.App, error) {
		git := source(script)
		a.GitSource = &git
		return a, nil
	})
	check.OK(w, err)
	b, err := w.store.RecordBuild(w.Context(), w.ref, func(app.App) (deploy.Build, error) {
		return deploy.NewBuild(source(script), "0123abc", deploy.Webhook, "webhook", time.Now().UTC().Truncate(time.Microsecond)), nil
	})
	check.OK(w, err)
	return b.Number
}

func (w *world) event(eventType, subject string) int {
	w.Helper()
	return functest.Event(w, eventType, subject).Send(w, w.handler).Status
}

func (w *world) tick() {
	w.Helper()
	if code := w.event(funcmain.PingType, ""); code >= 300 {
		w.Errorf("tick: got status %d", code)
	}
}

func (w *world) send(path, kind, body string) int {
	w.Helper()
	c := functest.Event(w, "dev.tekton.event.pipelinerun."+kind+".v1", "")
	c.Path, c.Body = path, body
	c.Header.Set("Ce-Source", "/tekton")
	return c.Send(w, w.handler).Status
}

func (w *world) tekton(kind string, run any) int {
	w.Helper()
	body, err := json.Marshal(map[string]any{"pipelineRun": run})
	check.OK(w, err)
	return w.send("/events/"+token, kind, string(body))
}

func (w *world) builds(user, method, path, body string, headers http.Header) functest.Answer {
	w.Helper()
	address := "/api/v1/projects/" + w.project + "/environments/prod/apps/hello/builds" + path
	return functest.Call{Method: method, Path: address, Body: body, User: user, Header: headers}.Send(w, w.handler)
}

func (w *world) requests(user, body string) functest.Answer {
	w.Helper()
	return w.builds(user, http.MethodPost, "", body, http.Header{"Content-Type": {"application/json"}})
}

func (w *world) build(n int64) deploy.Build {
	w.Helper()
	b, err := w.store.Build(w.Context(), w.ref, n)
	check.OK(w, err)
	return b
}

func (w *world) becomes(n int64, want deploy.BuildStatus) deploy.Build {
	w.Helper()
	return w.becomesAfter(func() {}, n, want)
}

func (w *world) becomesByTicks(n int64, want deploy.BuildStatus) deploy.Build {
	w.Helper()
	return w.becomesAfter(w.tick, n, want)
}

func (w *world) becomesAfter(each func(), n int64, want deploy.BuildStatus) deploy.Build {
	w.Helper()
	check.Eventually(w, fmt.Sprintf("have build %d %s", n, want), patience, func() error {
		each()
		if b := w.build(n); b.Status != want {
			return fmt.Errorf("got %+v", b)
		}
		return nil
	})
	return w.build(n)
}

// history checks the app's revisions, newest first, as "number actor".
func (w *world) history(want ...string) {
	w.Helper()
	revisions, _, err := w.store.Deployments(w.Context(), w.ref, store.Page{Size: 100})
	check.OK(w, err)
	var got []string
	for _, r := range revisions {
		got = append(got, fmt.Sprintf("%d %s", r.Number, r.Actor))
	}
	check.Equal(w, "history", want, got)
}
