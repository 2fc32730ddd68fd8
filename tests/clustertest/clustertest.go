// Package clustertest provides a Kubernetes API with the resource definitions of Traefik and
// the Gateway API, and a Traefik. SLUICE_TEST_KUBECONFIG selects the API server of a test run
// (see package services); otherwise each test process starts one. Tests share it and use
// separate namespaces. A package needs
//
//	func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }
package clustertest

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/ingress"
	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/services"
	"github.com/sluicegate/sluice/tests/check"
)

type servers struct {
	services.Cluster

	mu sync.Mutex

	gatewayOnce sync.Once
	gateway     string
}

var (
	own  servers
	mark = rand.Text()[:6] // part of this process's names
)

// Main runs a package's tests and stops the servers.
func Main(m *testing.M) int {
	code := m.Run()
	own.mu.Lock()
	defer own.mu.Unlock()
	if err := own.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		return max(code, 1)
	}
	return code
}

// MainAlone is Main without the shared API server, for packages that list the whole cluster.
func MainAlone(m *testing.M) int {
	if err := os.Unsetenv(services.KubeconfigVariable); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return Main(m)
}

// Kubeconfig returns the kubeconfig of an administrator.
func Kubeconfig(tb testing.TB) string {
	tb.Helper()
	if file := os.Getenv(services.KubeconfigVariable); file != "" {
		return file
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.Progress = tb.Output()
	if err := own.StartKube(tb.Context()); err != nil {
		tb.Fatalf("start the Kubernetes API: %v", err)
	}
	return own.Kube.Kubeconfig
}

// Start starts an API server for one test, and returns an administrator's configuration.
func Start(tb testing.TB, o kube.Options) (*kube.Server, *rest.Config) {
	tb.Helper()
	o.Progress = tb.Output()
	s, err := kube.Start(tb.Context(), o)
	check.OK(tb, err)
	check.Closes(tb, s)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	check.OK(tb, err)
	return s, config
}

// Config returns an administrator's configuration.
func Config(tb testing.TB) *rest.Config {
	tb.Helper()
	cfg, err := restConfig(Kubeconfig(tb))
	check.OK(tb, err)
	return cfg
}

// Ingress returns the URL of Traefik's entry point "web". It needs [MainAlone].
func Ingress(tb testing.TB) string {
	tb.Helper()
	return traefik(tb).URL
}

// SecureIngress returns the URL of Traefik's entry point "websecure". It needs [MainAlone].
func SecureIngress(tb testing.TB) string {
	tb.Helper()
	return traefik(tb).SecureURL
}

// ThrottledIngress starts another Traefik, which waits for throttle between configuration
// changes. It needs [MainAlone].
func ThrottledIngress(tb testing.TB, throttle time.Duration) string {
	tb.Helper()
	traefik(tb)
	s, err := ingress.Start(tb.Context(), ingress.Options{
		LogDir: tb.TempDir(), Kubeconfig: Kubeconfig(tb), Throttle: throttle, Progress: tb.Output(),
	})
	if err != nil {
		tb.Fatalf("start Traefik: %v", err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s.URL
}

func traefik(tb testing.TB) *ingress.Server {
	tb.Helper()
	if os.Getenv(services.KubeconfigVariable) != "" {
		tb.Fatal("Traefik needs an API server that this process started: use MainAlone")
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.Progress = tb.Output()
	if err := own.StartIngress(tb.Context()); err != nil {
		tb.Fatalf("start Traefik: %v", err)
	}
	return own.Ingress
}

// Gateway returns a Gateway as "namespace/name". It accepts HTTPRoutes from all namespaces.
func Gateway(tb testing.TB) string {
	tb.Helper()
	own.gatewayOnce.Do(func() { own.gateway = makeGateway(tb) })
	return own.gateway
}

func makeGateway(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(Ingress(tb))
	check.OK(tb, err)
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	check.OK(tb, err)
	namespace := Namespace(tb)
	client, err := dynamic.NewForConfig(Config(tb))
	check.OK(tb, err)
	version := schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}
	apply := func(kind, plural, namespace, name string, spec map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetGroupVersionKind(version.WithKind(kind))
		u.SetName(name)
		resource := version.WithResource(plural)
		if _, err := client.Resource(resource).Namespace(namespace).Apply(tb.Context(), name, u, metav1.ApplyOptions{FieldManager: "clustertest"}); err != nil {
			tb.Fatal(err)
		}
	}
	apply("GatewayClass", "gatewayclasses", "", "traefik", map[string]any{"controllerName": "traefik.io/gateway-controller"})
	apply("Gateway", "gateways", namespace, "apps", map[string]any{
		"gatewayClassName": "traefik",
		"listeners": []any{map[string]any{
			"name": "web", "protocol": "HTTP", "port": port,
			"allowedRoutes": map[string]any{"namespaces": map[string]any{"from": "All"}},
		}},
	})
	return namespace + "/apps"
}

// Name returns a unique name, such as "test-k3j5h2mzqaxy".
func Name() string { return "test-" + strings.ToLower(mark+rand.Text()[:8]) }

// Named reports whether a name begins with one that Name returned in this process. Controllers
// use it to ignore other namespaces.
func Named(name string) bool { return strings.HasPrefix(name, "test-"+strings.ToLower(mark)) }

// Namespace creates a namespace with a unique name.
func Namespace(tb testing.TB) string {
	tb.Helper()
	client, err := dynamic.NewForConfig(Config(tb))
	check.OK(tb, err)
	made := &unstructured.Unstructured{}
	made.SetAPIVersion("v1")
	made.SetKind("Namespace")
	made.SetName(Name())
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if _, err := namespaces.Create(tb.Context(), made, metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	return made.GetName()
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = 100, 200
	return cfg, nil
}
