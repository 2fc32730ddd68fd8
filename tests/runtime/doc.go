// Package runtime runs the same tests over the emulators of Knative and Tekton and over the real
// systems. By default it uses emulators/workloads and emulators/tekton. SLUICE_STACK selects the
// cluster of a running stack; the tests read only "kubeconfig" from this file:
//
//	SLUICE_STACK=/path/of/info.json go test -count=1 ./tests/runtime
//
// The cluster needs Knative Serving, Tekton, the Pipeline sluice-build in sluice-system, and the
// images of registry.example/echo, but none of registry.example/missing. The tests delete their
// namespaces, and TestEvents restores the ConfigMap config-events in tekton-pipelines.
package runtime
