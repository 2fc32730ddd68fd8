// Package buildevent knows the shapes of the CloudEvents that come from and go to
// other delivery systems: Tekton's events about PipelineRuns come in, CDEvents about
// finished deployments go out (promises D9, D12).
package buildevent
