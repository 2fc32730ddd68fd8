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
	// buildOfLabel says which app a PipelineRun builds, e.g. "hello"; buildLabel, which of
	// the app's builds it is, e.g. "7". Tekton gives a run's labels to its pods, so the app's
	// own label must not be among them: the app's Service would send requests there.
	buildOfLabel = "sluice.dev/build-of"
	buildLabel   = "sluice.dev/build"

	// runLabel is how Tekton marks the TaskRuns of a PipelineRun, with its name.
	runLabel = "tekton.dev/pipelineRun"
)

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
	ref, ok := app.ParseRef(namespace + "." + labels[buildOfLabel])
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

// Failure says what has failed in the PipelineRun of a name, as the first of its TaskRuns
// that says so has it ([buildevent.TaskRun.Failure]); "" when none does.
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

// read reads what is known here of one of Tekton's objects.
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
