// Package clustertest gives tests a real Kubernetes API with Traefik's resource
// definitions and the Gateway API's, and a real Traefik on it: one of each per test process,
// started when first asked for. Tests share them and keep apart by namespace.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }
//
// so that they end with the tests and leave no files behind.
package clustertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/definitions"
	"github.com/sluicegate/sluice/emulators/ingress"
	"github.com/sluicegate/sluice/emulators/kube"
)

// servers are what this process has started.
type servers struct {
	mu      sync.Mutex
	kube    *kube.Server
	ingress *ingress.Server
	logs    string // Traefik's directory
}

//nolint:gochecknoglobals // once per process is the point
var started servers

// Main runs a package's tests and stops what they have started.
func Main(m *testing.M) int {
	code := m.Run()
	if err := started.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		return max(code, 1)
	}
	return code
}

// Kubeconfig gives the file of an administrator of the API server.
func Kubeconfig(tb testing.TB) string {
	tb.Helper()
	started.mu.Lock()
	defer started.mu.Unlock()
	if err := started.startKube(tb.Context(), tb.Output()); err != nil {
		tb.Fatalf("start the Kubernetes API: %v", err)
	}
	return started.kube.Kubeconfig
}

// Config connects to the API server, for tests that look at objects themselves.
func Config(tb testing.TB) *rest.Config {
	tb.Helper()
	cfg, err := restConfig(Kubeconfig(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return cfg
}

// Ingress gives the URL of Traefik's entry point "web".
func Ingress(tb testing.TB) string {
	tb.Helper()
	started.mu.Lock()
	defer started.mu.Unlock()
	if err := started.startIngress(tb.Context(), tb.Output()); err != nil {
		tb.Fatalf("start Traefik: %v", err)
	}
	return started.ingress.URL
}

// SecureIngress gives the URL of Traefik's entry point "websecure", for routes that are
// served over TLS.
func SecureIngress(tb testing.TB) string {
	tb.Helper()
	Ingress(tb)
	started.mu.Lock()
	defer started.mu.Unlock()
	return started.ingress.SecureURL
}

// Gateway makes a Gateway of Traefik's entry point "web" in a namespace of its own, for
// HTTPRoutes of every namespace, and gives it as "namespace/name".
func Gateway(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(Ingress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	namespace := Namespace(tb)
	client, err := dynamic.NewForConfig(Config(tb))
	if err != nil {
		tb.Fatal(err)
	}
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

// Name gives a name that no other test has, such as "test-k3j5h2mzqa".
func Name() string { return "test-" + strings.ToLower(rand.Text()[:10]) }

// Namespace makes a namespace that no other test has.
func Namespace(tb testing.TB) string {
	tb.Helper()
	client, err := dynamic.NewForConfig(Config(tb))
	if err != nil {
		tb.Fatal(err)
	}
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

func (s *servers) startKube(ctx context.Context, progress io.Writer) error {
	if s.kube != nil {
		return nil
	}
	server, err := kube.Start(ctx, kube.Options{Progress: progress})
	if err != nil {
		return err
	}
	s.kube = server
	cfg, err := restConfig(server.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return definitions.Define(ctx, ".", client, definitions.Traefik(), definitions.Gateway())
}

func (s *servers) startIngress(ctx context.Context, progress io.Writer) error {
	if s.ingress != nil {
		return nil
	}
	if err := s.startKube(ctx, progress); err != nil {
		return err
	}
	var err error
	if s.logs, err = os.MkdirTemp("", "sluice-traefik-"); err != nil {
		return err
	}
	s.ingress, err = ingress.Start(ctx, ingress.Options{
		LogDir: s.logs, Kubeconfig: s.kube.Kubeconfig, Secure: true, Gateway: true, Progress: progress,
	})
	return err
}

func (s *servers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.ingress != nil {
		err = s.ingress.Close()
	}
	if s.kube != nil {
		err = errors.Join(err, s.kube.Close())
	}
	if s.logs != "" {
		err = errors.Join(err, os.RemoveAll(s.logs))
	}
	return err
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = 100, 200
	return cfg, nil
}
