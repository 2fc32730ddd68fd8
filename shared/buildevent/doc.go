// Package buildevent knows the shapes of what comes from and goes to other delivery
// systems: Tekton's events about PipelineRuns, and what its runs say about themselves, come
// in; CDEvents about finished deployments go out (promises D9, D12).
package buildevent
