package builds

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/shared/nudge"
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
func (c *Controller) write(ctx context.Context, object *unstructured.Unstructured, s status, began time.Time) error {
	runs := c.dynamic.Resource(pipelineRuns()).Namespace(object.GetNamespace())
	got, err := program.WriteStatus(ctx, runs, object.GetName(), s.fields(began, c.now()))
	if err == nil {
		object.Object = got.Object
	}
	return err
}

// kind is the type of the event that tells of a run's end.
func (s status) kind() string {
	if s.ok {
		return "successful"
	}
	return "failed"
}

const (
	sendTries = 5                      // of one event
	sendAgain = 200 * time.Millisecond // after a failure, doubled each time
)

// event is one of Tekton's events.
type event struct {
	kind string         // started, running, successful, failed
	body map[string]any // the run, as it was then
}

// shaped is a run as Tekton's events show it: a v1beta1 object, unless the script
// wants a v1 one.
func shaped(run *unstructured.Unstructured, s Script) map[string]any {
	body := run.DeepCopy().Object
	if s.V1 {
		return body
	}
	body["apiVersion"] = "tekton.dev/v1beta1"
	if st, ok := body["status"].(map[string]any); ok {
		if results, ok := st["results"]; ok {
			st["pipelineResults"] = results
			delete(st, "results")
		}
	}
	return body
}

// send sends an event as its script says.
func (c *Controller) send(ctx context.Context, e event, s Script) {
	if c.opts.Sink == "" || s.Silent {
		return
	}
	times := 1
	if s.Twice {
		times = 2
	}
	for range times {
		wait := sendAgain
		for try := 1; ; try++ {
			err := c.post(ctx, e)
			if err == nil || ctx.Err() != nil {
				break
			}
			if try == sendTries {
				c.log.Warn("event not sent", "kind", e.kind, "error", err)
				break
			}
			pause(ctx, wait)
			wait *= 2
		}
	}
}

// post sends an event once, in HTTP's binary mode, as Tekton does.
func (c *Controller) post(ctx context.Context, e event) error {
	run := unstructured.Unstructured{Object: e.body}
	out := cloudevents.NewEvent()
	out.SetID(rand.Text())
	out.SetType("dev.tekton.event.pipelinerun." + e.kind + ".v1")
	out.SetSource("/apis/namespaces/" + run.GetNamespace() + "/" + run.GetName())
	out.SetSubject(run.GetName())
	out.SetTime(c.now().UTC())
	if err := out.SetData(cloudevents.ApplicationJSON, map[string]any{"pipelineRun": e.body}); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if err := nudge.Post(ctx, c.client, c.opts.Sink, out); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}
