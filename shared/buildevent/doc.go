// Package buildevent knows the shapes of what comes from and goes to other systems: Tekton's
// events about PipelineRuns, and what its runs say about themselves, come in; CDEvents about
// finished deployments, and CloudEvents about keys, quotas and gates, go out (promises D9, D12,
// D13). What is told and when is package event's.
package buildevent
