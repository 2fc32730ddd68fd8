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

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/deploy"
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
	runs := c.pipelineRuns(r.App.Namespace)
	run, err := runs.write(ctx, pipelineRun(r))
	if apierrors.IsAlreadyExists(err) {
		run, err = runs.get(ctx, r.Name)
	}
	return runOf(run, err)
}

// Run reads what a PipelineRun says about itself. Problem: not_found.
func (c *Cluster) Run(ctx context.Context, namespace, name string) (deploy.Run, error) {
	return runOf(c.pipelineRuns(namespace).get(ctx, name))
}

func runOf(u *unstructured.Unstructured, err error) (deploy.Run, error) {
	if err != nil {
		return deploy.Run{}, err
	}
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
	resolver := []any{
		map[string]any{"name": "kind", "value": "pipeline"},
		map[string]any{"name": "name", "value": r.Pipeline},
		map[string]any{"name": "namespace", "value": r.PipelineNamespace},
	}
	all := labels(r.App.Name)
	all[buildLabel] = strconv.FormatInt(r.Build, 10)
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"pipelineRef":     map[string]any{"resolver": "cluster", "params": resolver},
		"params":          params,
		"timeouts":        map[string]any{"pipeline": r.Timeout.String()},
		"taskRunTemplate": map[string]any{"serviceAccountName": r.ServiceAccount},
	}}}
	run.SetNamespace(r.App.Namespace)
	run.SetName(r.Name)
	run.SetLabels(all)
	return run
}
