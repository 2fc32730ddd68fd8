package builds

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/shared/nudge"
	"github.com/sluicegate/sluice/shared/trace"
)

// status is where a run or its TaskRun is.
type status struct {
	done, ok        bool
	reason, message string
	results         []any
	children        []any // of a PipelineRun
	steps           []any // of a TaskRun, as is the next
	pod             string
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
	if s.pod != "" {
		fields["podName"] = s.pod
	}
	for name, list := range map[string][]any{"results": s.results, "childReferences": s.children, "steps": s.steps} {
		if len(list) > 0 {
			fields[name] = list
		}
	}
	return fields
}

// over tells whether a run has ended already.
func over(run *unstructured.Unstructured) bool {
	at, _, err := unstructured.NestedString(run.Object, "status", "completionTime")
	return err == nil && at != ""
}

// write writes the status of a run or a TaskRun, into object too.
func (c *Controller) write(ctx context.Context, object *unstructured.Unstructured, s status, began time.Time) error {
	kinds := kind(strings.ToLower(object.GetKind()) + "s")
	objects := c.dynamic.Resource(kinds).Namespace(object.GetNamespace())
	got, err := program.WriteStatus(ctx, objects, object.GetName(), s.fields(began, c.now()))
	if err == nil {
		object.Object = got.Object
	}
	return err
}

// event is the last part of the type of the event that tells of a status.
func (s status) event() string {
	switch {
	case s.done && s.ok:
		return "successful"
	case s.done:
		return "failed"
	case s.reason == "Started", s.reason == "Running":
		return strings.ToLower(s.reason)
	}
	return "unknown"
}

const (
	sendTries = 5                      // of one event
	sendAgain = 200 * time.Millisecond // after a failure, doubled each time
)

// event is one of Tekton's events.
type event struct {
	kind            string // e.g. "pipelinerun.started"
	namespace, name string // of the run
	data            map[string]any
}

// eventOf is the event that tells that a run or a TaskRun has a status. Its data is a
// v1beta1 object, unless the script wants a v1 one, which names neither its kind nor its
// version.
func eventOf(object *unstructured.Unstructured, s status, script Script) event {
	body, what := object.DeepCopy().Object, "taskRun"
	if object.GetKind() == "PipelineRun" {
		what = "pipelineRun"
	}
	delete(body, "apiVersion")
	delete(body, "kind")
	if st, ok := body["status"].(map[string]any); ok && !script.V1 {
		if results, ok := st["results"]; ok {
			st[map[string]string{"pipelineRun": "pipelineResults", "taskRun": "taskResults"}[what]] = results
			delete(st, "results")
		}
	}
	return event{
		kind: strings.ToLower(what) + "." + s.event(), namespace: object.GetNamespace(), name: object.GetName(),
		data: map[string]any{what: body},
	}
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
			trace.Sleep(ctx, wait)
			wait *= 2
		}
	}
}

// post sends an event once, in HTTP's binary mode, as Tekton does. Tekton leaves the group,
// the version and the kind out of the source, which it does not know of what it has read.
func (c *Controller) post(ctx context.Context, e event) error {
	out := cloudevents.NewEvent()
	out.SetID(rand.Text())
	out.SetType("dev.tekton.event." + e.kind + ".v1")
	out.SetSource("/apis///namespaces/" + e.namespace + "//" + e.name)
	out.SetSubject(e.name)
	out.SetTime(c.now().UTC())
	if err := out.SetData(cloudevents.ApplicationJSON, e.data); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if err := nudge.Post(ctx, c.client, c.opts.Sink, out); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}
