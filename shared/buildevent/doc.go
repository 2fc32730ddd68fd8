// Package buildevent converts events of other systems: Tekton's events about PipelineRuns come
// in, CDEvents about deployments and CloudEvents about keys, quotas and gates go out (promises
// D9, D12, D13). Package event decides which events are sent.
package buildevent
