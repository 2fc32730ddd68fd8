package runtime

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/tests/check"
)

func TestBuildThatFails(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	const name = "hello-build-1"
	run, err := r.sluice.StartRun(t.Context(), cluster.PipelineRun{
		App: app.Ref{Namespace: r.namespace, Name: "hello"}, Build: 1, Name: name,
		Pipeline: "sluice-build", PipelineNamespace: "sluice-system", ServiceAccount: "default", Timeout: 5 * time.Minute,
		Params: map[string]string{
			"repository": "https://ada:secret@git.invalid/emulate-fail/hello.git", "branch": "main", "commit": "", "path": "", "image": "registry.example/built/hello:1",
		},
	})
	check.OK(t, err)
	if run.UID == "" || run.Done {
		t.Errorf("new run: got %+v, want a UID and not done", run)
	}
	run = r.waitDone(name)
	if run.OK || run.Message != "Failed: Tasks Completed: 1 (Failed: 1, Cancelled 0), Skipped: 0" {
		t.Errorf("ended run: got %+v, want the failure", run)
	}
	t.Run("its TaskRun", func(t *testing.T) {
		r := r.with(t)
		task := r.taskRun(name)
		want := map[string]string{
			"app.kubernetes.io/managed-by": "sluice", "sluice.dev/build-of": "hello", "sluice.dev/build": "1",
			"tekton.dev/pipelineRun": name, "tekton.dev/pipelineRunUID": run.UID, "tekton.dev/pipelineTask": "build", "tekton.dev/memberOf": "tasks",
		}
		got := task.GetLabels()
		delete(got, "tekton.dev/pipeline") // the emulator does not set this label
		check.Equal(t, "labels", want, got)
		if by := controllerOf(task); by != "tekton.dev/v1 PipelineRun "+name {
			t.Errorf("controller: got %q, want PipelineRun %s", by, name)
		}
		c := conditionOf(task, "Succeeded")
		if message := regexp.MustCompile(`^"step-[a-z-]+" exited with code 1: Error$`); c.Status != "False" || c.Reason != "Failed" || !message.MatchString(c.Message) {
			t.Errorf("condition: got %+v, want Failed with the exit code of a step", c)
		}
	})
	t.Run("failure message", func(t *testing.T) {
		failure, err := r.sluice.Failure(t.Context(), r.namespace, name)
		message := regexp.MustCompile(`^step (clone|build-and-push) exited with 1: \S.*$`)
		if err != nil || !message.MatchString(failure) || strings.Contains(failure, "secret") {
			t.Errorf("got %q, %v, want the exit code of a step and no credentials", failure, err)
		}
	})
}

func (r *runtime) waitDone(name string) deploy.Run {
	r.Helper()
	var run deploy.Run
	r.eventually("end "+name, func() (err error) {
		if run, err = r.sluice.Run(r.Context(), r.namespace, name); err == nil && !run.Done {
			err = fmt.Errorf("it is %q", run.Message)
		}
		return err
	})
	return run
}

func (r *runtime) taskRun(run string) *unstructured.Unstructured {
	r.Helper()
	u, err := r.objects("tekton.dev", "v1", "pipelineruns").Get(r.Context(), run, meta.GetOptions{})
	check.OK(r.T, err)
	children, _, err := unstructured.NestedSlice(u.Object, "status", "childReferences")
	check.OK(r.T, err)
	want := []any{map[string]any{"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": run + "-build", "pipelineTaskName": "build"}}
	for _, c := range children {
		if fields, ok := c.(map[string]any); ok {
			delete(fields, "displayName") // only newer versions of Tekton
		}
	}
	check.Equal(r, "children", want, children)
	task, err := r.objects("tekton.dev", "v1", "taskruns").Get(r.Context(), run+"-build", meta.GetOptions{})
	check.OK(r.T, err)
	return task
}

// inline runs a Pipeline with one step, in the image of the shipped Pipeline's first step.
func (r *runtime) inline(name, script string, params map[string]string) {
	r.Helper()
	var given []any
	for _, key := range slices.Sorted(maps.Keys(params)) {
		given = append(given, map[string]any{"name": key, "value": params[key]})
	}
	var declared, passed, results []any
	for key := range params {
		declared = append(declared, map[string]any{"name": key, "type": "string"})
	}
	for _, key := range []string{"IMAGE_URL", "IMAGE_DIGEST", "COMMIT"} {
		passed = append(passed, map[string]any{"name": key, "type": "string"})
		results = append(results, map[string]any{"name": key, "value": "$(tasks.build.results." + key + ")"})
	}
	_, err := r.objects("tekton.dev", "v1", "pipelineruns").Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"params": given,
			"pipelineSpec": map[string]any{
				"params": declared, "results": results,
				"tasks": []any{map[string]any{"name": "build", "taskSpec": map[string]any{
					"results": passed, "steps": []any{map[string]any{"name": "only", "image": r.stepImage(), "script": script}},
				}}},
			},
		},
	}}, meta.CreateOptions{})
	check.OK(r.T, err)
}

func (r *runtime) stepImage() string {
	r.Helper()
	if stackFile() == "" {
		return "alpine/git"
	}
	pipeline, err := r.dynamic.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelines"}).Namespace("sluice-system").Get(r.Context(), "sluice-build", meta.GetOptions{})
	check.OK(r.T, err)
	tasks, _, _ := unstructured.NestedSlice(pipeline.Object, "spec", "tasks")
	task, _ := tasks[0].(map[string]any)
	steps, _, _ := unstructured.NestedSlice(task, "taskSpec", "steps")
	step, _ := steps[0].(map[string]any)
	image, _ := step["image"].(string)
	return image
}

// TestEvents checks the events about a run and its TaskRun. It is not parallel: on a cluster, it
// receives all events of Tekton.
func TestEvents(t *testing.T) { //nolint:paralleltest // see above
	r := newRuntime(t)
	to := sink(t, r)
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	r.inline("good", "#!/bin/sh\nsleep 1\nprintf registry.example/built/hello:1 > $(results.IMAGE_URL.path)\nprintf "+digest+
		" > $(results.IMAGE_DIGEST.path)\nprintf 0123abc > $(results.COMMIT.path)\n", map[string]string{"image": "registry.example/built/hello:1"})
	r.inline("bad", "#!/bin/sh\nsleep 1\nexit 1\n", map[string]string{"repository": "https://git.invalid/emulate-fail/hello.git"})
	for name, want := range map[string]struct{ run, result string }{"good": {"successful", "registry.example/built/hello:1"}, "bad": {"failed", ""}} {
		t.Run(name, func(t *testing.T) {
			r := r.with(t)
			last := "dev.tekton.event.pipelinerun." + want.run + ".v1"
			r.eventually("receive the last event", func() error {
				if all := to.eventsFor(r.namespace, name); len(all) == 0 || !slices.ContainsFunc(all, func(e received) bool { return e.event.Type() == last }) {
					return fmt.Errorf("%d events", len(all))
				}
				return nil
			})
			runs, tasks := to.eventsFor(r.namespace, name), to.eventsFor(r.namespace, name+"-build")
			r.checkEvents("pipelineRun", runs, name, []string{"started", "running", want.run})
			r.checkEvents("taskRun", tasks, name+"-build", []string{"started", "unknown", "running", want.run})
			for _, e := range tasks {
				if _, _, err := buildevent.Tekton(e.event); !errors.Is(err, buildevent.ErrOther) {
					t.Errorf("parse %s: got %v, want ErrOther", e.event.Type(), err)
				}
			}
			for _, e := range runs {
				p, run, err := buildevent.Tekton(e.event)
				if strings.HasSuffix(e.event.Type(), ".unknown.v1") && errors.Is(err, buildevent.ErrOther) {
					continue
				}
				if err != nil || p.Metadata.Name != name || run.Done != (e.event.Type() == last) || run.Done && (run.OK != (want.run == "successful") || run.Image != want.result) {
					t.Errorf("parse %s: got %+v, %v", e.event.Type(), run, err)
				}
			}
			if status := statusOf(runs, last, "pipelineRun"); (status["pipelineResults"] != nil) != (want.result != "") || status["results"] != nil || status["childReferences"] == nil {
				t.Errorf("status: got %v", status)
			}
		})
	}
}

// checkEvents checks the form of the events about one object. Each wanted type must occur, in any
// order.
func (r *runtime) checkEvents(key string, all []received, name string, want []string) {
	r.Helper()
	var got []string
	ids := map[string]bool{}
	for _, e := range all {
		kind := strings.TrimSuffix(strings.TrimPrefix(e.event.Type(), "dev.tekton.event."+strings.ToLower(key)+"."), ".v1")
		got = append(got, kind)
		ids[e.event.ID()] = true
		header := map[string]string{
			"Ce-Specversion": "1.0", "Ce-Source": "/apis///namespaces/" + r.namespace + "//" + name, "Ce-Subject": name, "Content-Type": "application/json",
		}
		for field, value := range header {
			if e.header.Get(field) != value {
				r.Errorf("%s of %s: got %q, want %q", field, kind, e.header.Get(field), value)
			}
		}
		body, ok := e.body[key].(map[string]any)
		object := unstructured.Unstructured{Object: body}
		if !ok || len(e.body) != 1 || body["apiVersion"] != nil || body["kind"] != nil || object.GetName() != name || object.GetNamespace() != r.namespace || object.GetUID() == "" {
			r.Errorf("body of %s: got %v", kind, e.body)
		}
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(got)))
	check.Equal(r, "types of events", slices.Sorted(slices.Values(want)), slices.DeleteFunc(kinds, func(k string) bool { return k == "unknown" && !slices.Contains(want, k) }))
	if len(ids) != len(all) {
		r.Errorf("IDs of %d events: got %d different", len(all), len(ids))
	}
}

func statusOf(all []received, kind, key string) map[string]any {
	for _, e := range all {
		if e.event.Type() == kind {
			body, _ := e.body[key].(map[string]any)
			status, _ := body["status"].(map[string]any)
			return status
		}
	}
	return nil
}
