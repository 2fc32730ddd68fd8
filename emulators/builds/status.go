package builds

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// status is where a run is.
type status struct {
	done, ok        bool
	reason, message string
	results         []any
}

// fields are what Tekton's status has of it.
func (s status) fields(began, now time.Time) map[string]any {
	truth := "Unknown"
	switch {
	case s.done && s.ok:
		truth = "True"
	case s.done:
		truth = "False"
	}
	fields := map[string]any{
		"startTime": began.UTC().Format(time.RFC3339),
		"conditions": []any{map[string]any{
			"type": "Succeeded", "status": truth, "reason": s.reason, "message": s.message,
			"lastTransitionTime": now.UTC().Format(time.RFC3339),
		}},
	}
	if s.done {
		fields["completionTime"] = now.UTC().Format(time.RFC3339)
	}
	if len(s.results) > 0 {
		fields["results"] = s.results
	}
	return fields
}

// over tells whether a run has ended already.
func over(run *unstructured.Unstructured) bool {
	at, _, err := unstructured.NestedString(run.Object, "status", "completionTime")
	return err == nil && at != ""
}

// write writes a run's status, into object too.
func (c *Controller) write(ctx context.Context, object *unstructured.Unstructured, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return fmt.Errorf("encode the status of %s: %w", object.GetName(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	got, err := c.dynamic.Resource(pipelineRuns()).Namespace(object.GetNamespace()).
		Patch(ctx, object.GetName(), types.MergePatchType, patch, meta.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", object.GetName(), err)
	}
	object.Object = got.Object
	return nil
}
