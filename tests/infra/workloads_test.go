package infra

import (
	"path/filepath"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	kmeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// impersonate returns a client that acts as a function with every right: only admission rejects
// its writes.
func impersonate(t *testing.T, function string) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(adminConfig(t))
	config.UserAgent = intruder
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + system + ":" + function, Groups: []string{"system:masters"}}
	client, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	return client
}

const (
	consoleHost = "localhost" // in emulators/stack/values.yaml

	deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: trial}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {automountServiceAccountToken: false, containers: [{name: trial, image: a, env: [{name: PORT, value: "8080"}], ports: [{containerPort: 8080}]}]}}}}`
	route      = "{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: trial}, spec: {entryPoints: [web], routes: [{kind: Rule, match: 'Host(`trial.example.com`)', services: [{name: trial, port: 8080}]}]}}"
	httpRoute  = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: trial}, spec: {hostnames: [trial.example.com], rules: [{backendRefs: [{name: trial, port: 8080}]}]}}`
	build      = `{apiVersion: tekton.dev/v1, kind: PipelineRun, metadata: {name: trial}, spec: {pipelineRef: {resolver: cluster, params: [{name: kind, value: pipeline}, {name: name, value: sluice-build}, {name: namespace, value: sluice-system}]}, taskRunTemplate: {serviceAccountName: builder}}}`
)

// TestCompromisedFunctionWorkloads tries to reach nodes, Secrets, accounts and the console's hosts through
// workloads, builds and routes.
func TestCompromisedFunctionWorkloads(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	environment := s.Project + "-" + s.Env
	admin, err := dynamic.NewForConfig(adminConfig(t))
	check.OK(t, err)
	check.OK(t, crds.Define(t.Context(), filepath.Join("..", ".."), admin, crds.Gateway()))
	tests := []struct {
		name, function, object string
		change                 []string // old and new text
		allowed                bool
	}{
		{name: "a Deployment of Sluice", function: "deploys", object: deployment, allowed: true},
		{name: "with the host's network", function: "deploys", object: deployment, change: []string{"containers:", "hostNetwork: true, containers:"}},
		{name: "with the host's processes", function: "apps", object: deployment, change: []string{"containers:", "hostPID: true, containers:"}},
		{name: "with the host's IPC", function: "wiring", object: deployment, change: []string{"containers:", "hostIPC: true, containers:"}},
		{name: "with a directory of the node", function: "deploys", object: deployment, change: []string{"containers:", "volumes: [{name: a, hostPath: {path: /}}], containers:"}},
		{name: "with a Secret as a volume", function: "deploys", object: deployment, change: []string{"containers:", "volumes: [{name: a, secret: {secretName: database}}], containers:"}},
		{name: "with an account", function: "deploys", object: deployment, change: []string{"containers:", "serviceAccountName: builder, containers:"}},
		{name: "with the default account's token", function: "deploys", object: deployment, change: []string{"automountServiceAccountToken: false, ", ""}},
		{name: "privileged", function: "deploys", object: deployment, change: []string{"image: a,", "image: a, securityContext: {privileged: true},"}},
		{name: "with more capabilities", function: "deploys", object: deployment, change: []string{"image: a,", "image: a, securityContext: {capabilities: {add: [SYS_ADMIN]}},"}},
		{name: "with a Secret's value", function: "deploys", object: deployment, change: []string{`value: "8080"`, `valueFrom: {secretKeyRef: {name: database, key: password}}`}},
		{name: "with all of a Secret's values", function: "deploys", object: deployment, change: []string{"image: a,", "image: a, envFrom: [{secretRef: {name: database}}],"}},
		{name: "on a port of the node", function: "deploys", object: deployment, change: []string{"containerPort: 8080", "containerPort: 8080, hostPort: 80"}},
		{name: "with an init container", function: "deploys", object: deployment, change: []string{"containers:", "initContainers: [{name: first, image: a}], containers:"}},
		{name: "without a seccomp profile", function: "deploys", object: deployment, change: []string{"containers:", "securityContext: {seccompProfile: {type: Unconfined}}, containers:"}},

		{name: "a route of Sluice", function: "wiring", object: route, allowed: true},
		{name: "for preflights", function: "wiring", object: route, change: []string{"'Host", "'Method(`OPTIONS`) && HeaderRegexp(`Access-Control-Request-Method`, `.*`) && Host"}, allowed: true},
		{name: "for WebSockets", function: "wiring", object: route, change: []string{"'Host", "'HeaderRegexp(`Upgrade`, `(?i)^websocket$`) && Method(`GET`) && Host"}, allowed: true},
		{name: "for every path", function: "apps", object: route, change: []string{"com`)", "com`) && PathPrefix(`/`)"}, allowed: true},
		{name: "with a priority", function: "wiring", object: route, change: []string{"kind: Rule,", "kind: Rule, priority: 9999,"}},
		{name: "for any host", function: "wiring", object: route, change: []string{"Host(`trial.example.com`)", "HostRegexp(`.*`)"}},
		{name: "for a path without a host", function: "wiring", object: route, change: []string{"Host(`trial.example.com`)", "PathPrefix(`/`)"}},
		{name: "for two hosts", function: "wiring", object: route, change: []string{"com`)", "com`) || Host(`b.example.com`)"}},
		{name: "for the console's host", function: "wiring", object: route, change: []string{"trial.example.com", consoleHost}},
		{name: "to another namespace", function: "wiring", object: route, change: []string{"name: trial, port", "name: trial, namespace: sluice-system, port"}},
		{name: "with a Middleware of another namespace", function: "wiring", object: route, change: []string{"services:", "middlewares: [{name: a, namespace: b}], services:"}},

		{name: "an HTTPRoute of Sluice", function: "wiring", object: httpRoute, allowed: true},
		{name: "HTTPRoute for any host", function: "wiring", object: httpRoute, change: []string{"hostnames: [trial.example.com], ", ""}},
		{name: "HTTPRoute for many hosts", function: "wiring", object: httpRoute, change: []string{"trial.example.com", `"*.example.com"`}},
		{name: "HTTPRoute for the console's host", function: "wiring", object: httpRoute, change: []string{"trial.example.com", consoleHost}},
		{name: "HTTPRoute to another namespace", function: "wiring", object: httpRoute, change: []string{"name: trial, port", "name: trial, namespace: sluice-system, port"}},

		{name: "a build of Sluice", function: "builds", object: build, allowed: true},
		{name: "with another Pipeline", function: "builds", object: build, change: []string{"sluice-build", "other"}},
		{name: "with a Pipeline of another namespace", function: "builds", object: build, change: []string{"value: sluice-system", "value: default"}},
		{name: "with a pod template", function: "builds", object: build, change: []string{"taskRunTemplate: {", "taskRunTemplate: {podTemplate: {hostNetwork: true}, "}},
		{name: "with a workspace", function: "builds", object: build, change: []string{"taskRunTemplate:", "workspaces: [{name: a, emptyDir: {}}], taskRunTemplate:"}},
		{name: "with inline tasks", function: "builds", object: build, change: []string{"pipelineRef:", "pipelineSpec: {tasks: []}, pipelineRef:"}},
	}
	for _, tt := range tests {
		text := tt.object
		if tt.change != nil {
			if !strings.Contains(text, tt.change[0]) {
				t.Fatalf("%s: the object has no %q", tt.name, tt.change[0])
			}
			text = strings.Replace(text, tt.change[0], tt.change[1], 1)
		}
		objects, err := manifest.Decode([]byte(text))
		check.OK(t, err)
		kind := objects[0].GroupVersionKind()
		resource, _ := kmeta.UnsafeGuessKindToResource(kind)
		data, err := objects[0].MarshalJSON()
		check.OK(t, err)
		for _, verb := range []string{"create", "apply"} {
			client := impersonate(t, tt.function).Resource(resource).Namespace(environment)
			if verb == "create" {
				_, err = client.Create(t.Context(), objects[0], meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
			} else {
				_, err = client.Patch(t.Context(), "trial", types.ApplyPatchType, data, meta.PatchOptions{FieldManager: "sluice", DryRun: []string{meta.DryRunAll}})
			}
			if tt.allowed && err != nil || !tt.allowed && !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err) {
				t.Errorf("%s, %s: got %v, want allowed: %v", verb, tt.name, err, tt.allowed)
			}
		}
	}
}

// TestAdoptedWorkloads changes an existing workload with privileges that new workloads cannot
// have.
func TestAdoptedWorkloads(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	const had = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: had}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: theirs, hostNetwork: true,
	  volumes: [{name: data, secret: {secretName: database}}], initContainers: [{name: first, image: a}],
	  containers: [{name: had, image: a, securityContext: {runAsUser: 0}, volumeMounts: [{name: data, mountPath: /data}], env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}]}]}}}}`
	objects, err := manifest.Decode([]byte(had))
	check.OK(t, err)
	resource, _ := kmeta.UnsafeGuessKindToResource(objects[0].GroupVersionKind())
	admin, err := dynamic.NewForConfig(adminConfig(t))
	check.OK(t, err)
	environment := s.Project + "-" + s.Env
	_, err = admin.Resource(resource).Namespace(environment).Create(t.Context(), objects[0], meta.CreateOptions{})
	check.OK(t, err)
	for _, tt := range []struct {
		name, patch string
		allowed     bool
	}{
		{name: "another image and port", patch: `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"b"},{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"PORT","value":"8080"}}]`, allowed: true},
		{name: "a volume removed", patch: `[{"op":"remove","path":"/spec/template/spec/volumes/0"},{"op":"remove","path":"/spec/template/spec/containers/0/volumeMounts"}]`, allowed: true},
		{name: "a volume added", patch: `[{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":"b","secret":{"secretName":"other"}}}]`},
		{name: "another account", patch: `[{"op":"replace","path":"/spec/template/spec/serviceAccountName","value":"other"},{"op":"replace","path":"/spec/template/spec/serviceAccount","value":"other"}]`},
		{name: "another Secret's value", patch: `[{"op":"replace","path":"/spec/template/spec/containers/0/env/0/valueFrom/secretKeyRef/name","value":"other"}]`},
		{name: "more privileges", patch: `[{"op":"add","path":"/spec/template/spec/containers/0/securityContext/capabilities","value":{"add":["SYS_ADMIN"]}}]`},
		{name: "the host's processes", patch: `[{"op":"add","path":"/spec/template/spec/hostPID","value":true}]`},
		{name: "another init container", patch: `[{"op":"replace","path":"/spec/template/spec/initContainers/0/image","value":"b"}]`},
		{name: "a container with a mount", patch: `[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"b","image":"b","volumeMounts":[{"name":"data","mountPath":"/b"}]}}]`},
	} {
		_, err := impersonate(t, "deploys").Resource(resource).Namespace(environment).Patch(t.Context(), "had", types.JSONPatchType, []byte(tt.patch), meta.PatchOptions{DryRun: []string{meta.DryRunAll}})
		if tt.allowed && err != nil || !tt.allowed && !kerrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want allowed: %v", tt.name, err, tt.allowed)
		}
	}
}
