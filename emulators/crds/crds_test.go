package crds_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

const root = "../.."

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

func TestDefine(t *testing.T) {
	t.Parallel()
	config := clustertest.Config(t)
	client, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	check.OK(t, crds.Define(t.Context(), root, client, crds.Tekton(), crds.Serving(), crds.Eventing(), crds.Gateway(), crds.EnvoyGateway()))
	applier, err := manifest.NewApplier(config)
	check.OK(t, err)
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"Knative Service", "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a, namespace: default}, spec: {template: {spec: {containers: [{image: a}]}}}}", true},
		{"misspelled", "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a, namespace: default}, spec: {template: {spec: {container: [{image: a}]}}}}", false},
		{"PingSource", "{apiVersion: sources.knative.dev/v1, kind: PingSource, metadata: {name: a, namespace: default}, spec: {schedule: '* * * * *', sink: {uri: 'http://a'}}}", true},
		{"PipelineRun", "{apiVersion: tekton.dev/v1, kind: PipelineRun, metadata: {name: a, namespace: default}, spec: {pipelineRef: {name: a}}}", true},
		{"HTTPRoute", "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a, namespace: default}, spec: {rules: [{backendRefs: [{name: a, port: 80}]}]}}", true},
		{"HTTPRoute without a port", "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a, namespace: default}, spec: {rules: [{backendRefs: [{name: a}]}]}}", false},
		{"SecurityPolicy for nothing", "{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {name: a, namespace: default}, spec: {}}", false},
		{"no namespace", "{apiVersion: tekton.dev/v1, kind: PipelineRun, metadata: {name: a}, spec: {pipelineRef: {name: a}}}", false},
		{"unknown kind", "{apiVersion: tekton.dev/v1, kind: Pipelines, metadata: {name: a, namespace: default}}", false},
		{"built in", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {a: b}}", true},
		{"built in, misspelled", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, dta: {a: b}}", false},
	}
	for _, tt := range tests {
		list, err := manifest.Decode([]byte(tt.text))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if err := applier.Check(t.Context(), list); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want accepted %v", tt.name, err, tt.ok)
		}
	}
	list := manifestOf(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}, data: {a: b}}")
	if err := applier.Apply(t.Context(), list); err != nil {
		t.Error(err)
	}
	maps := client.Resource(list[0].GroupVersionKind().GroupVersion().WithResource("configmaps")).Namespace("default")
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("Check created an object")
	}
}

func manifestOf(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	list, err := manifest.Decode([]byte(text))
	check.OK(t, err)
	return list
}
