package runtime

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/tekton"
	"github.com/sluicegate/sluice/emulators/workloads"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

const (
	image        = "registry.example/echo:v1"
	next         = "registry.example/echo:v2"
	missingImage = "registry.example/missing/echo:v1"

	timeout = 3 * time.Minute // includes image pulls and digest lookups on a cluster
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// stackFile returns the description of a stack on a cluster, or "" for the emulators.
func stackFile() string { return os.Getenv("SLUICE_STACK") }

// runtime is a namespace on a cluster, or on an API server with the emulators.
type runtime struct {
	*testing.T
	namespace string
	dynamic   dynamic.Interface
	kube      kubernetes.Interface
	sluice    *cluster.Cluster
}

var emulated struct {
	start sync.Once
	sink  *recorder
	err   error
}

func newRuntime(t *testing.T) *runtime {
	t.Helper()
	kubeconfig := kubeconfigOf(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check.OK(t, err)
	config.QPS, config.Burst = 100, 200
	r := &runtime{T: t, namespace: "runtime-" + strings.ToLower(rand.Text()[:8])}
	r.dynamic, err = dynamic.NewForConfig(config)
	check.OK(t, err)
	r.kube, err = kubernetes.NewForConfig(config)
	check.OK(t, err)
	if stackFile() == "" {
		emulated.start.Do(func() { emulated.sink, emulated.err = emulate(config, r.dynamic) })
		check.OK(t, emulated.err)
	}
	r.sluice, err = cluster.Open(cluster.Options{Kubeconfig: kubeconfig})
	check.OK(t, err)
	check.OK(t, r.sluice.EnsureNamespace(t.Context(), r.namespace))
	t.Cleanup(func() {
		if err := r.kube.CoreV1().Namespaces().Delete(context.Background(), r.namespace, meta.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *runtime) with(t *testing.T) *runtime {
	t.Helper()
	other := *r
	other.T = t
	return &other
}

func kubeconfigOf(t *testing.T) string {
	t.Helper()
	if stackFile() == "" {
		return clustertest.Kubeconfig(t)
	}
	text, err := os.ReadFile(stackFile())
	check.OK(t, err)
	var info struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	check.OK(t, json.Unmarshal(text, &info))
	return info.Kubeconfig
}

// emulate runs the emulators until the process ends.
func emulate(config *rest.Config, client dynamic.Interface) (*recorder, error) {
	if err := crds.Define(context.Background(), filepath.Join("..", ".."), client, crds.Tekton(), crds.Serving()); err != nil {
		return nil, err
	}
	sink, err := listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pods, err := workloads.New(config, log)
	if err != nil {
		return nil, err
	}
	tekton, err := tekton.New(config, tekton.Options{Sink: "http://" + sink.address}, log)
	if err != nil {
		return nil, err
	}
	go func() { _ = pods.Run(context.Background()) }()
	go func() { _ = tekton.Run(context.Background()) }()
	return sink, nil
}

func (r *runtime) objects(group, version, resource string) dynamic.ResourceInterface {
	return r.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(r.namespace)
}

func (r *runtime) eventually(what string, ready func() error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			r.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

type condition struct{ Type, Status, Reason, Message string }

func conditionOf(u *unstructured.Unstructured, kind string) condition {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			text := func(field string) string { s, _ := c[field].(string); return s }
			return condition{kind, text("status"), text("reason"), text("message")}
		}
	}
	return condition{Type: kind}
}

func textOf(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// controllerOf returns, for example, "serving.knative.dev/v1 Route hello".
func controllerOf(o meta.Object) string {
	owner := meta.GetControllerOf(o)
	if owner == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", owner.APIVersion, owner.Kind, owner.Name)
}

func (r *runtime) service(name string) (*core.Service, error) {
	return r.kube.CoreV1().Services(r.namespace).Get(r.Context(), name, meta.GetOptions{})
}
