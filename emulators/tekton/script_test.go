package tekton

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/tests/check"
)

func runWith(annotationWords, repository string) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "hello-build-1", "uid": "u1"},
		"spec": map[string]any{"params": []any{
			map[string]any{"name": "repository", "value": repository},
			map[string]any{"name": "image", "value": "registry.example.com:5000/hello:b1"},
		}},
	}}
	if annotationWords != "" {
		run.SetAnnotations(map[string]string{annotation: annotationWords})
	}
	return run
}

func TestScript(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, annotation, repository string
		want                         Script
	}{
		{"nothing", "", "https://git.example.com/hello.git", Script{}},
		{"no URL", "", "::", Script{}},
		{"in the repository", "", "https://git.example.com/emulate-slow-twice/hello.git", Script{Slow: true, Twice: true}},
		{"in the annotation", "fail-v1", "https://git.example.com/emulate-slow/hello.git", Script{Fail: true, V1: true}},
		{"unknown words", "fail-softly", "", Script{Fail: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "script", tt.want, scriptOf(runWith(tt.annotation, tt.repository)))
		})
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		script    Script
		cancelled bool
		ok        bool
		reason    string
		results   int
		image     string
	}{
		{"well", Script{}, false, true, "Succeeded", 3, "registry.example.com:5000/hello:b1"},
		{"broken", Script{Broken: true}, false, true, "Succeeded", 3, "registry.example.com:5000/hello:broken"},
		{"without a digest", Script{NoDigest: true}, false, true, "Succeeded", 2, "registry.example.com:5000/hello:b1"},
		{"without a commit", Script{NoCommit: true}, false, true, "Succeeded", 2, "registry.example.com:5000/hello:b1"},
		{"without results", Script{NoImage: true}, false, true, "Succeeded", 0, ""},
		{"failed", Script{Fail: true}, false, false, "Failed", 0, ""},
		{"timed out", Script{Timeout: true}, false, false, "PipelineRunTimeout", 0, ""},
		{"cancelled", Script{Fail: true}, true, false, "Cancelled", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := ending(runWith("", ""), tt.script, tt.cancelled)
			if !end.done || end.ok != tt.ok || end.reason != tt.reason || len(end.results) != tt.results {
				t.Fatalf("got %+v, want %+v", end, tt)
			}
			if tt.results > 0 && end.results[0].(map[string]any)["value"] != tt.image { //nolint:forcetypeassert // ending made it
				t.Errorf("got results %v, want image %q", end.results, tt.image)
			}
		})
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	const head = "b858cb282617fb0956d960215c8e84d1ccf909c6"
	tests := []struct {
		name, requested string
		script          Script
		want            string
	}{
		{"the branch's head", "", Script{}, head},
		{"a commit", strings.Repeat("ab", 20), Script{}, strings.Repeat("ab", 20)},
		{"a longer one", strings.Repeat("ab", 32), Script{}, strings.Repeat("ab", 32)},
		{"its first digits", "abc1234", Script{}, "abc1234" + head[7:]},
		{"another one", "abc1234", Script{Misbuilt: true}, head},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run := runWith("", "https://git.example.com/hello.git")
			run.Object["spec"] = map[string]any{"params": []any{map[string]any{"name": "commit", "value": tt.requested}}}
			if got := commitOf(run, tt.script); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	run := runWith("", "")
	run.SetAPIVersion("tekton.dev/v1")
	run.SetKind("PipelineRun")
	run.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "sluice"})
	task := taskRunOf(run)
	if got := task.GetLabels(); got["app.kubernetes.io/managed-by"] != "sluice" || got["tekton.dev/pipelineRun"] != "hello-build-1" {
		t.Errorf("got TaskRun labels %v, want the run's labels and its name", got)
	}
	tests := []struct {
		name   string
		object *unstructured.Unstructured
		status status
		script Script
		kind   string
		body   string
		result string
	}{
		{"a run starts", run, status{reason: "Started"}, Script{}, "pipelinerun.started", "pipelineRun", ""},
		{"a run succeeds", run, status{done: true, ok: true}, Script{}, "pipelinerun.successful", "pipelineRun", "pipelineResults"},
		{"a run fails", run, status{done: true}, Script{V1: true}, "pipelinerun.failed", "pipelineRun", "results"},
		{"a pod is awaited", task, status{reason: "Pending"}, Script{}, "taskrun.unknown", "taskRun", ""},
		{"a task runs", task, status{reason: "Running"}, Script{}, "taskrun.running", "taskRun", ""},
		{"a task fails", task, status{done: true}, Script{}, "taskrun.failed", "taskRun", "taskResults"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			object := tt.object.DeepCopy()
			object.Object["status"] = map[string]any{}
			if tt.result != "" {
				object.Object["status"] = map[string]any{"results": []any{"r"}}
			}
			got := eventOf(object, tt.status, tt.script)
			body, ok := got.data[tt.body].(map[string]any)
			if got.kind != tt.kind || got.name != object.GetName() || !ok || body["kind"] != nil || body["apiVersion"] != nil || body["metadata"] == nil {
				t.Errorf("got %+v, want kind %s without apiVersion and kind", got, tt.kind)
			}
			if is, _ := body["status"].(map[string]any); tt.result != "" && is[tt.result] == nil {
				t.Errorf("got status %v, want %s", is, tt.result)
			}
		})
	}
}

func TestTaskEnding(t *testing.T) {
	t.Parallel()
	for script, want := range map[Script]struct {
		ok     bool
		reason string
		steps  int
		result string
	}{
		{}:              {true, "Succeeded", 2, "IMAGE_URL"},
		{Fail: true}:    {false, "Failed", 2, "ERROR"},
		{Timeout: true}: {false, "TaskRunCancelled", 0, ""},
	} {
		run := runWith("", "")
		got := taskEnding(taskRunOf(run), ending(run, script, false))
		result := ""
		if len(got.results) > 0 {
			result = got.results[0].(map[string]any)["name"].(string) //nolint:forcetypeassert // text made it
		}
		if !got.done || got.ok != want.ok || got.reason != want.reason || len(got.steps) != want.steps || result != want.result {
			t.Errorf("%+v: got %+v, want %+v", script, got, want)
		}
	}
}
