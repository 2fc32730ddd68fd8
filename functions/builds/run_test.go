package builds

import (
	"context"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

func runOf(w *world, b deploy.Build, succeeded string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"name": b.RunName(w.ref), "namespace": w.ref.Namespace, "uid": b.RunUID,
			"labels": map[string]any{"sluice.dev/build-of": w.ref.Name, "sluice.dev/build": strconv.FormatInt(b.Number, 10)},
		},
		"status": map[string]any{
			"conditions":      []any{map[string]any{"type": "Succeeded", "status": succeeded}},
			"pipelineResults": []any{map[string]any{"name": "IMAGE_URL", "value": "registry.example.com/forged:v1"}},
		},
	}
}

func (w *world) runs() dynamic.ResourceInterface {
	w.Helper()
	client, err := dynamic.NewForConfig(clustertest.Config(w))
	check.OK(w, err)
	return client.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}).Namespace(w.ref.Namespace)
}

func (w *world) patch(n int64, patch string) {
	w.Helper()
	_, err := w.runs().Patch(w.Context(), w.build(n).RunName(w.ref), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	check.OK(w, err)
}

func (w *world) deleteRun(n int64) {
	w.Helper()
	check.OK(w, w.runs().Delete(w.Context(), w.build(n).RunName(w.ref), metav1.DeleteOptions{}))
}

type nowhere struct{}

func (nowhere) StartRun(context.Context, cluster.PipelineRun) (deploy.Run, error) {
	return deploy.Run{}, problem.FromCode(problem.Unavailable)
}

func (nowhere) Run(context.Context, string, string) (deploy.Run, error) {
	return deploy.Run{}, problem.FromCode(problem.NotFound)
}

func (nowhere) Failure(context.Context, string, string) (string, error) {
	return "", problem.FromCode(problem.Unavailable)
}
