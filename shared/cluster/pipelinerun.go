package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// buildLabel says which build of its app a PipelineRun is, e.g. "7".
const buildLabel = "sluice.dev/build"

// PipelineRun is the run of one build.
type PipelineRun struct {
	App   app.Ref
	Build int64
	Name  string // always the same for a build, so that it is never run twice

	Pipeline          string // name of the Pipeline
	PipelineNamespace string // where it is; the run is in the app's namespace
	ServiceAccount    string // that the run's pods use
	Timeout           time.Duration
	Params            map[string]string
}

func pipelineRuns() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
}

// BuildOf reads from a PipelineRun's place and labels which build it says it is.
func BuildOf(namespace string, labels map[string]string) (app.Ref, int64, bool) {
	ref, ok := app.ParseRef(namespace + "." + labels[appLabel])
	if !ok {
		return app.Ref{}, 0, false
	}
	n, err := strconv.ParseInt(labels[buildLabel], 10, 64)
	return ref, n, err == nil && n > 0
}

// StartRun starts the run of a build and gives what it says about itself, or the one
// that was started before.
func (c *Cluster) StartRun(ctx context.Context, r PipelineRun) (deploy.Run, error) {
	if err := c.EnsureNamespace(ctx, r.App.Namespace); err != nil {
		return deploy.Run{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	runs := c.kind(pipelineRuns(), r.App.Namespace)
	run, err := runs.create(ctx, pipelineRun(r))
	if apierrors.IsAlreadyExists(err) {
		run, err = runs.get(ctx, r.Name)
	}
	if err != nil {
		return deploy.Run{}, fmt.Errorf("start build %d of %s: %w", r.Build, r.App, problemOf(err))
	}
	return runOf(run)
}

// Run reads what a PipelineRun says about itself. Problem: not_found.
func (c *Cluster) Run(ctx context.Context, namespace, name string) (deploy.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	run, err := c.kind(pipelineRuns(), namespace).get(ctx, name)
	if apierrors.IsNotFound(err) {
		return deploy.Run{}, fmt.Errorf("read run %s.%s: %w", namespace, name, problem.Of(problem.NotFound))
	}
	if err != nil {
		return deploy.Run{}, fmt.Errorf("read run %s.%s: %w", namespace, name, problemOf(err))
	}
	return runOf(run)
}

func runOf(u *unstructured.Unstructured) (deploy.Run, error) {
	raw, err := u.MarshalJSON()
	if err != nil {
		return deploy.Run{}, fmt.Errorf("read run %s.%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	var p buildevent.PipelineRun
	if err := json.Unmarshal(raw, &p); err != nil {
		return deploy.Run{}, fmt.Errorf("read run %s.%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return p.Run(), nil
}

// pipelineRun is the object. The Pipeline is found by Tekton's cluster resolver,
// because one in the system's namespace serves every app.
func pipelineRun(r PipelineRun) *unstructured.Unstructured {
	params := make([]any, 0, len(r.Params))
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		params = append(params, map[string]any{"name": name, "value": r.Params[name]})
	}
	all := texts(labels(r.App.Name))
	all[buildLabel] = strconv.FormatInt(r.Build, 10)
	resolver := []any{
		map[string]any{"name": "kind", "value": "pipeline"},
		map[string]any{"name": "name", "value": r.Pipeline},
		map[string]any{"name": "namespace", "value": r.PipelineNamespace},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1",
		"kind":       "PipelineRun",
		"metadata": map[string]any{
			"name": r.Name, "namespace": r.App.Namespace, "labels": all,
		},
		"spec": map[string]any{
			"pipelineRef":     map[string]any{"resolver": "cluster", "params": resolver},
			"params":          params,
			"timeouts":        map[string]any{"pipeline": r.Timeout.String()},
			"taskRunTemplate": map[string]any{"serviceAccountName": r.ServiceAccount},
		},
	}}
}
