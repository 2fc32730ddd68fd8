// Modules with the resource definitions that the local stack's API server serves, as YAML.
// Nothing here is compiled.
module github.com/sluicegate/sluice/emulators/crds/modules

go 1.26.7

require (
	github.com/envoyproxy/gateway v1.9.1
	github.com/tektoncd/pipeline v1.9.0
	knative.dev/eventing v0.50.0
	knative.dev/serving v0.51.0
)
