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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/deploy"
)

const (
	// The labels of a PipelineRun: the app that it builds, e.g. "hello", and the build's number,
	// e.g. "7". They must differ from appLabel: Tekton copies labels to the run's pods, which the
	// app's Service would then select.
	buildOfLabel = "sluice.dev/build-of"
	buildLabel   = "sluice.dev/build"

	runLabel = "tekton.dev/pipelineRun"
)

// PipelineRun describes the run of one build.
type PipelineRun struct {
	App   app.Ref
	Build int64
	Name  string // derived from the build, so that it runs only once

	Pipeline          string
	PipelineNamespace string // of the Pipeline; the run is in the app's namespace
	ServiceAccount    string
	Timeout           time.Duration
	Params            map[string]string
}

// BuildOf returns the app and the build number of a PipelineRun, from its namespace and labels.
func BuildOf(namespace string, labels map[string]string) (app.Ref, int64, bool) {
	ref, ok := app.ParseRef(namespace + "." + labels[buildOfLabel])
	if !ok {
		return app.Ref{}, 0, false
	}
	n, err := strconv.ParseInt(labels[buildLabel], 10, 64)
	return ref, n, err == nil && n > 0
}

// StartRun starts the run of a build, unless it exists, and returns its state.
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

// Run returns the state of a PipelineRun. It returns a not_found problem if the run does not
// exist.
func (c *Cluster) Run(ctx context.Context, namespace, name string) (deploy.Run, error) {
	return runOf(c.pipelineRuns(namespace).get(ctx, name))
}

// Failure returns the first failure among the TaskRuns of a PipelineRun (see
// [buildevent.TaskRun.Failure]), or "".
func (c *Cluster) Failure(ctx context.Context, namespace, name string) (string, error) {
	all, err := c.taskRuns(namespace).list(ctx, metav1.ListOptions{LabelSelector: runLabel + "=" + name})
	if err != nil {
		return "", err
	}
	for _, u := range all {
		task, err := read[buildevent.TaskRun](u)
		if err != nil {
			return "", err
		}
		if failure := task.Failure(); failure != "" {
			return failure, nil
		}
	}
	return "", nil
}

func runOf(u *unstructured.Unstructured, err error) (deploy.Run, error) {
	if err != nil {
		return deploy.Run{}, err
	}
	p, err := read[buildevent.PipelineRun](u)
	return p.Run(), err
}

func read[T any](u *unstructured.Unstructured) (known T, err error) {
	raw, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		return known, fmt.Errorf("read %s %s.%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return known, nil
}

// pipelineRun uses Tekton's cluster resolver, so that one Pipeline in another namespace serves all
// apps.
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
	all := managed()
	all[buildOfLabel], all[buildLabel] = r.App.Name, strconv.FormatInt(r.Build, 10)
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
