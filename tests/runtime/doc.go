// Package runtime holds the emulators of Knative and Tekton to the real parts: one table of
// what Sluice's functions see of them, with the same expectations for both. By itself it runs
// over an API server with emulators/workloads and emulators/builds; with SLUICE_STACK, the
// file that describes a running stack ("kubeconfig" of it is all that is read), over that
// stack's cluster, with Knative Serving and Tekton on it:
//
//	go test ./tests/runtime
//	SLUICE_STACK=/path/of/info.json go test -count=1 ./tests/runtime
//
// On a cluster, images of registry.example/echo must be there to be pulled, none of
// registry.example/missing may be, and the Pipeline sluice-build is in sluice-system. Everything
// is made in namespaces of the test's own, which it deletes. While Tekton is listened to, its
// events go to the test (ConfigMap config-events in tekton-pipelines, which is put back).
package runtime
