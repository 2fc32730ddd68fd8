package tekton

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/reqctx"
)

type status struct {
	done, ok        bool
	reason, message string
	results         []any
	children        []any
	steps           []any
	pod             string
}

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

func over(run *unstructured.Unstructured) bool {
	at, _, err := unstructured.NestedString(run.Object, "status", "completionTime")
	return err == nil && at != ""
}

func (c *Controller) write(ctx context.Context, object *unstructured.Unstructured, s status, began time.Time) error {
	kinds := kind(strings.ToLower(object.GetKind()) + "s")
	objects := c.dynamic.Resource(kinds).Namespace(object.GetNamespace())
	got, err := program.WriteStatus(ctx, objects, object.GetName(), s.fields(began, c.now()))
	if err == nil {
		object.Object = got.Object
	}
	return err
}

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
	sendTries = 5
	sendAgain = 200 * time.Millisecond
)

type event struct {
	kind            string // e.g. "pipelinerun.started"
	namespace, name string
	data            map[string]any
}

// eventOf returns the event for a status. Its data is the object without kind and version, as
// v1beta1, or as v1 if the script requests it.
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
				c.log.Warn("send event failed", "kind", e.kind, "error", err)
				break
			}
			reqctx.Sleep(ctx, wait)
			wait *= 2
		}
	}
}

// post sends an event in HTTP's binary mode. As in Tekton, the source lacks the group, version
// and kind.
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
	if err := notify.Post(ctx, c.client, c.opts.Sink, out); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return nil
}
