package deploys

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/emulators/workloads"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

const (
	patience = 90 * time.Second

	// brokenAfter leaves other images enough time on a busy machine.
	brokenAfter = 15 * time.Second
)

type tags map[string]string

func (t tags) Resolve(_ context.Context, image string) (digest, note string) {
	if d, ok := t[image]; ok {
		return d, ""
	}
	return "", ""
}

// world is the function with a real store and a real Kubernetes API. The environments prod and
// staging each have an app hello. ada is a developer, vera a viewer.
type world struct {
	testing.TB
	service *Service
	handler http.Handler
	store   *store.Store
	cluster *cluster.Cluster
	project string
	cfg     Config
}

var controller sync.Once

func runPods(t testing.TB) {
	t.Helper()
	config := clustertest.Config(t)
	controller.Do(func() {
		c, err := workloads.New(config, functest.Quiet())
		if err != nil {
			t.Error(err)
			return
		}
		c.Only = clustertest.Named // other packages share the API server
		go func() { _ = c.Run(context.Background()) }()
	})
}

func newWorld(t testing.TB, with func(*Config, *Parts)) *world {
	t.Helper()
	runPods(t)
	cl, err := cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(t)})
	check.OK(t, err)
	w := &world{TB: t, store: storetest.New(t), cluster: cl, project: clustertest.Name()}
	w.addApp("prod", "hello", "hello:v1")
	w.addApp("staging", "hello", "hello:v1")
	w.cfg = Config{ProgressDeadline: patience, FollowEvery: 50 * time.Millisecond, LookEvery: 100 * time.Millisecond, Workers: 4}
	w.start(with)
	return w
}

func (w *world) start(with func(*Config, *Parts)) {
	w.Helper()
	cfg := w.cfg
	parts := Parts{
		Store: w.store, Cluster: w.cluster, Registry: tags{},
		Sessions: functest.Sessions{}, Log: functest.Quiet(),
	}
	if with != nil {
		with(&cfg, &parts)
	}
	w.store.AnnounceEvents(parts.Sink != nil)
	service, err := New(cfg, parts)
	check.OK(w, err)
	w.service = service
	w.handler = service.Handler()
	w.Cleanup(func() {
		if err := service.Close(context.Background()); err != nil {
			w.Error(err)
		}
	})
}

func (w *world) ref(environment string) app.Ref {
	return app.Ref{Namespace: w.project + "-" + environment, Name: "hello"}
}

func (w *world) addApp(environment, name, image string) {
	w.Helper()
	storetest.Environment(w, w.store, w.project, environment)
	now := time.Now().UTC().Truncate(time.Microsecond)
	a := app.App{Name: name, Project: w.project, Environment: environment, Image: image, CreatedAt: now, UpdatedAt: now}
	if image == "" {
		a.GitSource = &app.GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"}
	} else {
		a.Revision = 1
	}
	storetest.App(w, w.store, a)
}

func (w *world) as(user, method, environment, path, body string) functest.Answer {
	w.Helper()
	return w.send(user, method, environment, path, body, nil)
}

func (w *world) send(user, method, environment, path, body string, headers http.Header) functest.Answer {
	w.Helper()
	address := "/api/v1/projects/" + w.project + "/environments/" + environment + "/apps/" + path
	return functest.Call{Method: method, Path: address, Body: body, User: user, Header: headers}.Send(w, w.handler)
}

func (w *world) post(path, body string) functest.Answer {
	w.Helper()
	return w.as("ada", http.MethodPost, "prod", path, body)
}

func (w *world) deploy(image string) wire.Deployment {
	w.Helper()
	return made(w.post("hello/deployments", fmt.Sprintf(`{"image":%q}`, image)))
}

func made(a functest.Answer) wire.Deployment {
	a.Helper()
	d := functest.Read[wire.Deployment](a, http.StatusAccepted)
	environment, _, _ := strings.Cut(a.Call.Path, "/apps/")
	if got, want := a.Header.Get("Location"), fmt.Sprintf("%s/apps/hello/deployments/%d", environment, d.Revision); got != want {
		a.Errorf("%s: Location: got %q, want %q", a.Call.Path, got, want)
	}
	return d
}

// history returns an app's revisions, newest first, as "number image status".
func (w *world) history(environment string) []string {
	w.Helper()
	list := functest.Read[wire.List[wire.Deployment]](w.as("vera", http.MethodGet, environment, "hello/deployments?page_size=500", ""), http.StatusOK)
	var lines []string
	for _, d := range list.Items {
		lines = append(lines, fmt.Sprintf("%d %s %s", d.Revision, d.Image, d.Status))
	}
	return lines
}

func (w *world) within(environment string, want ...string) {
	w.Helper()
	w.eventually("have the history of "+environment, func() error {
		if diff := cmp.Diff(want, w.history(environment)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

func (w *world) eventually(what string, ready func() error) {
	w.Helper()
	check.Eventually(w, what, patience, ready)
}

// becomes waits until revision n is as expected.
func (w *world) becomes(n int64, expected func(deploy.Revision) bool) {
	w.Helper()
	w.eventually(fmt.Sprintf("change revision %d", n), func() error {
		if r := w.revision(n); !expected(r) {
			return fmt.Errorf("got %+v", r)
		}
		return nil
	})
}

func live(r deploy.Revision) bool { return r.Status == deploy.Live }

func (w *world) runs(image string, revision int64) {
	w.Helper()
	seen, err := w.cluster.Workload(w.Context(), w.ref("prod"))
	check.OK(w, err)
	a, err := w.store.App(w.Context(), w.ref("prod").Namespace, "hello")
	check.OK(w, err)
	if a.Image != image || a.Revision != revision || !seen.Runs(a) {
		w.Errorf("got image %s, revision %d, in the cluster: %v; want image %s, revision %d", a.Image, a.Revision, seen.Runs(a), image, revision)
	}
}

// becomesLive sends ticks until revision n is live.
func (w *world) becomesLive(n int64) {
	w.Helper()
	w.becomes(n, func(deploy.Revision) bool { return w.ticked() && live(w.revision(n)) })
}

func (w *world) revision(n int64) deploy.Revision {
	w.Helper()
	r, err := w.store.Deployment(w.Context(), w.ref("prod"), n)
	check.OK(w, err)
	return r
}
