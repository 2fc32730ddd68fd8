package builds

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

// post sends an event once, in HTTP's binary mode.
func (c *Controller) post(ctx context.Context, e event) error {
	body, err := json.Marshal(map[string]any{"pipelineRun": e.body})
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.opts.Sink, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make an event: %w", err)
	}
	run := unstructured.Unstructured{Object: e.body}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Ce-Specversion", "1.0")
	req.Header.Set("Ce-Id", rand.Text())
	req.Header.Set("Ce-Type", "dev.tekton.event.pipelinerun."+e.kind+".v1")
	req.Header.Set("Ce-Source", "/apis/namespaces/"+run.GetNamespace()+"/"+run.GetName())
	req.Header.Set("Ce-Subject", run.GetName())
	req.Header.Set("Ce-Time", c.now().UTC().Format(time.RFC3339Nano))
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written through it
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)); err != nil {
		return fmt.Errorf("read the answer to an event: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("send an event: answered %d", resp.StatusCode)
	}
	return nil
}
