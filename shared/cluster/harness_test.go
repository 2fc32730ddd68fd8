package cluster

import (
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

const checkerURL = "https://sluice-checker.sluice-system.svc:8443"

// bench is an app in a separate namespace of a real API server.
type bench struct {
	*testing.T
	cluster *Cluster
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	app     app.App
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOf(t, Routes{})
}

func benchOf(t *testing.T, routes Routes) *bench {
	t.Helper()
	routes.EntryPoints, routes.Gateway = []string{"web"}, "traefik/apps/web"
	c, err := Open(Options{Kubeconfig: clustertest.Kubeconfig(t), Routes: &routes, CheckerURL: checkerURL, WebhookNamespace: clustertest.Namespace(t)})
	check.OK(t, err)
	cfg := clustertest.Config(t)
	kube, err := kubernetes.NewForConfig(cfg)
	check.OK(t, err)
	dyn, err := dynamic.NewForConfig(cfg)
	check.OK(t, err)
	ns := clustertest.Name()
	return &bench{T: t, cluster: c, kube: kube, dynamic: dyn, app: app.App{
		Name: "hello", Namespace: ns, Host: "hello." + ns + ".localhost", Port: 8080,
		Image: "registry.example/hello:v1", Revision: 1, Gate: app.Gate{State: app.Ungated, Since: time.Now()},
	}}
}

func (b *bench) must(err error) {
	b.Helper()
	check.OK(b, err)
}

func (b *bench) objects() Objects {
	b.Helper()
	o, err := b.cluster.Objects(b.Context(), b.app.Ref())
	b.must(err)
	return o
}

func (b *bench) place() {
	b.Helper()
	b.must(b.cluster.Apply(b.Context(), b.objects(), b.app))
}

func (b *bench) gate() {
	b.Helper()
	ctx := b.Context()
	if !b.app.RequireAPIKey {
		b.app.RequireAPIKey, b.app.Gate = true, app.Gate{State: app.Pending, Since: time.Now()}
	}
	b.must(b.cluster.WriteCA(ctx, b.objects(), b.app.Ref(), []byte("CA")))
	b.must(b.cluster.WriteMiddleware(ctx, b.objects(), b.app))
	b.must(b.cluster.ApplyRoute(ctx, b.objects(), b.app, true))
}

func (b *bench) release() {
	b.Helper()
	b.app.RequireAPIKey, b.app.Gate = false, app.Gate{State: app.Releasing, Since: time.Now()}
	b.must(b.cluster.ApplyRoute(b.Context(), b.objects(), b.app, false))
	b.must(b.cluster.DeleteMiddleware(b.Context(), b.objects(), b.app.Ref()))
}

func (b *bench) named() gate {
	b.Helper()
	return gate{ref: b.app.Ref(), generation: b.objects().Generation()}
}

func (b *bench) state() State {
	b.Helper()
	return b.cluster.State(b.objects(), b.app, []byte("CA"))
}

func (b *bench) eventually(ready func() error) {
	b.Helper()
	check.Eventually(b, "change the cluster", 30*time.Second, ready)
}
