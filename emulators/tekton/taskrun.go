package tekton

import (
	"context"
	"fmt"
	"maps"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/program"
)

// A run has one TaskRun, without a pod. It has the steps of the shipped Pipeline, of which the
// second can fail.
const (
	taskName  = "build"
	cloneStep = "clone"
	buildStep = "build-and-push"

	// failedOutput is the value of the result ERROR.
	failedOutput = "Dockerfile:3\nerror: failed to solve: process \"/bin/sh -c make\" did not complete successfully: exit code: 2\n"
)

// taskRunOf returns the TaskRun of a run. As in Tekton, the run controls it and passes on its
// labels.
func taskRunOf(run *unstructured.Unstructured) *unstructured.Unstructured {
	task := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": "TaskRun",
		"spec": map[string]any{"taskSpec": map[string]any{"steps": []any{map[string]any{"name": cloneStep}, map[string]any{"name": buildStep}}}},
	}}
	labels := map[string]string{"app.kubernetes.io/managed-by": "tekton-pipelines"}
	maps.Copy(labels, run.GetLabels())
	maps.Copy(labels, map[string]string{
		"tekton.dev/pipelineRun": run.GetName(), "tekton.dev/pipelineRunUID": string(run.GetUID()),
		"tekton.dev/pipelineTask": taskName, "tekton.dev/memberOf": "tasks",
	})
	task.SetNamespace(run.GetNamespace())
	task.SetName(run.GetName() + "-" + taskName)
	task.SetLabels(labels)
	owner := true
	task.SetOwnerReferences([]meta.OwnerReference{{
		APIVersion: run.GetAPIVersion(), Kind: run.GetKind(), Name: run.GetName(), UID: run.GetUID(), Controller: &owner, BlockOwnerDeletion: &owner,
	}})
	return task
}

// makeTaskRun creates a run's TaskRun, or reads the TaskRun that a previous process created.
func (c *Controller) makeTaskRun(ctx context.Context, run *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
	defer cancel()
	task, tasks := taskRunOf(run), c.dynamic.Resource(kind("taskruns")).Namespace(run.GetNamespace())
	made, err := tasks.Create(ctx, task, meta.CreateOptions{})
	if kerrors.IsAlreadyExists(err) {
		made, err = tasks.Get(ctx, task.GetName(), meta.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("create TaskRun %s: %w", task.GetName(), err)
	}
	return made, nil
}

func (c *Controller) removeTaskRun(ctx context.Context, run *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
	defer cancel()
	task := taskRunOf(run)
	err := c.dynamic.Resource(kind("taskruns")).Namespace(run.GetNamespace()).Delete(ctx, task.GetName(), meta.DeleteOptions{})
	if err != nil && !kerrors.IsNotFound(err) && ctx.Err() == nil {
		c.log.Warn("delete TaskRun failed", "task_run", task.GetName(), "error", err)
	}
}

func children(task *unstructured.Unstructured) []any {
	return []any{map[string]any{
		"apiVersion": task.GetAPIVersion(), "kind": task.GetKind(), "name": task.GetName(), "pipelineTaskName": taskName,
	}}
}

func taskEnding(task *unstructured.Unstructured, run status) status {
	end, cause := status{done: true, ok: run.ok}, "timed out"
	switch {
	case run.ok:
		end.reason, end.message, end.results = "Succeeded", "All Steps have completed executing", run.results
		end.steps = []any{stepEnded(cloneStep, 0), stepEnded(buildStep, 0)}
	case run.reason == "Failed":
		end.reason, end.message = "Failed", fmt.Sprintf("%q exited with code 1: Error", "step-"+buildStep)
		end.results = []any{text("ERROR", failedOutput)}
		end.steps = []any{stepEnded(cloneStep, 0), stepEnded(buildStep, 1)}
	case run.reason == "Cancelled":
		cause = "been cancelled"
		fallthrough
	default:
		end.reason = "TaskRunCancelled"
		end.message = fmt.Sprintf("TaskRun %q was cancelled. TaskRun cancelled as the PipelineRun it belongs to has %s.", task.GetName(), cause)
	}
	return end
}

func stepEnded(name string, code int) map[string]any {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return map[string]any{
		"name": name, "container": "step-" + name, "terminationReason": reason,
		"terminated": map[string]any{"exitCode": int64(code), "reason": reason},
	}
}

func text(name, value string) map[string]any {
	return map[string]any{"name": name, "type": "string", "value": value}
}

type build struct {
	*Controller
	script    Script
	began     time.Time
	run, task *unstructured.Unstructured
	late      []event // delayed until after the last event
}

// move writes a status and sends its event. It returns false if the build must end.
func (b *build) move(ctx context.Context, object *unstructured.Unstructured, s status) bool {
	if object == b.task {
		s.pod = b.task.GetName() + "-pod"
	}
	if err := b.write(ctx, object, s, b.began); err != nil {
		if ctx.Err() == nil && !kerrors.IsNotFound(err) {
			b.log.Warn("write run status failed", "run", object.GetName(), "error", err)
		}
		return false
	}
	e := eventOf(object, s, b.script)
	if b.script.Reordered && (!s.done || object != b.run) {
		b.late = append([]event{e}, b.late...)
		return true
	}
	b.send(ctx, e, b.script)
	return true
}

// start returns false if the build must end.
func (b *build) start(ctx context.Context) bool {
	if !b.move(ctx, b.run, status{reason: "Started", message: "Not all Tasks in the Pipeline have finished executing"}) {
		return false
	}
	var err error
	if b.task, err = b.makeTaskRun(ctx, b.run); err != nil {
		b.log.Warn("start build failed", "run", b.run.GetName(), "error", err)
		return false
	}
	running := status{
		reason: "Running", message: "Tasks Completed: 0 (Failed: 0, Cancelled 0), Incomplete: 1, Skipped: 0", children: children(b.task),
	}
	if !b.move(ctx, b.run, running) {
		return false
	}
	for _, s := range []status{
		{reason: "Started"}, // Tekton sends two to six events while the pod is pending
		{reason: "Pending", message: "Pending"},
		{reason: "Pending", message: `pod status "Initialized":"False"; message: "containers with incomplete status: [prepare place-scripts]"`},
		{reason: "Running", message: "Not all Steps in the Task have finished executing"},
	} {
		if !b.move(ctx, b.task, s) {
			return false
		}
	}
	return true
}

func (b *build) end(ctx context.Context, s status) {
	s.children = children(b.task)
	if !b.move(ctx, b.task, taskEnding(b.task, s)) || !b.move(ctx, b.run, s) {
		return
	}
	for _, e := range b.late {
		b.send(ctx, e, b.script)
	}
}
