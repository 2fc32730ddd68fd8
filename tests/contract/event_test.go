package contract

import (
	"net/http"
	"strings"
	"testing"
)

func event(eventType, data string) call {
	return call{method: http.MethodPost, path: "/", body: data, header: map[string]string{
		"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "/test", "Ce-Type": eventType,
	}}
}

func (c call) with(header map[string]string) call {
	all := map[string]string{}
	for name, value := range c.header {
		all[name] = value
	}
	for name, value := range header {
		if all[name] = value; value == "" {
			delete(all, name)
		}
	}
	c.header = all
	return c
}

func structured(contentType, body string) call {
	return call{method: http.MethodPost, path: "/", body: body, header: map[string]string{"Content-Type": contentType}}
}

// TestEvents sends the conformance cases of the functions framework and of the HTTP binding.
// Events of an unknown type are accepted: sending them again would not help.
func TestEvents(t *testing.T) {
	t.Parallel()
	ping := event("dev.knative.sources.ping", "{}")
	const document = `{"specversion":"1.0","id":"1","source":"/test","type":"dev.knative.sources.ping","datacontenttype":"application/json","data":{}}`
	tests := []struct {
		name   string
		call   call
		status int // first digit
	}{
		{"binary", ping, 2},
		{"binary with what is optional", ping.with(map[string]string{"Ce-Time": "2026-01-02T03:04:05.678Z", "Ce-Subject": "shop-prod.hello", "Ce-Dataschema": "https://example.com/schema"}), 2},
		{"binary with an extension", ping.with(map[string]string{"Ce-Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01"}), 2},
		{"binary without data", call{method: http.MethodPost, path: "/", header: ping.with(map[string]string{"Content-Type": ""}).header}, 2},
		{"binary of a foreign type", event("com.example.other", "{}"), 2},
		{"structured", structured("application/cloudevents+json", document), 2},
		{"structured with a charset", structured("application/cloudevents+json; charset=UTF-8", document), 2},
		{"structured of a foreign type", structured("application/cloudevents+json", strings.Replace(document, "dev.knative.sources.ping", "com.example.other", 1)), 2},
		{"structured with binary data", structured("application/cloudevents+json", strings.Replace(document, `"data":{}`, `"data_base64":"e30="`, 1)), 2},
		{"batch", structured("application/cloudevents-batch+json", "["+document+"]"), 4},
		{"batch with a charset", structured("application/cloudevents-batch+json; charset=UTF-8", "["+document+"]"), 4},
		{"no event", structured("text/plain", "hello"), 4},
		{"no event, JSON", structured("application/json", "{}"), 4},
		{"without an id", ping.with(map[string]string{"Ce-Id": ""}), 4},
		{"without a type", ping.with(map[string]string{"Ce-Type": ""}), 4},
		{"without a source", ping.with(map[string]string{"Ce-Source": ""}), 4},
		{"of another version", ping.with(map[string]string{"Ce-Specversion": "7.0"}), 4},
		{"structured, broken", structured("application/cloudevents+json", document[:40]), 4},
		{"structured without a type", structured("application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/test"}`), 4},
		{"GET", call{method: http.MethodGet, path: "/", header: ping.header}, 4},
		{"too large", structured("application/cloudevents+json", document[:len(document)-2]+strings.Repeat(" ", 2<<20)+"}}"), 4},
	}
	for _, function := range []string{"rollup", "wiring", "deploys", "builds"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			p := launch(t, function, settings(t, function)).ready(t)
			for _, test := range tests {
				if status, body := p.do(t, test.call); status/100 != test.status {
					t.Errorf("%s: got %d %.200s, want %dxx", test.name, status, body, test.status)
				}
			}
		})
	}
}

func TestBuildEvents(t *testing.T) {
	t.Parallel()
	p := launch(t, "builds", settings(t, "builds")).ready(t)
	started := event("dev.tekton.event.pipelinerun.started.v1", "{}")
	started.path = "/events/" + buildsToken
	if status, body := p.do(t, started); status/100 != 2 {
		t.Errorf("with the token: got %d %s, want 2xx", status, body)
	}
	started.path = "/events/" + strings.Repeat("0", len(buildsToken))
	if status, body := p.do(t, started); status != http.StatusUnauthorized {
		t.Errorf("with another token: got %d %s, want %d", status, body, http.StatusUnauthorized)
	}
	if strings.Contains(p.log(), buildsToken) {
		t.Error("the token is in the log")
	}
}

func TestSink(t *testing.T) {
	t.Parallel()
	s := settings(t, "deploys")
	s["K_SINK"] = "broker"
	p := launch(t, "deploys", s)
	if code := p.end(t); code == 0 || !strings.Contains(p.log(), "K_SINK") {
		t.Errorf("got exit code %d and log %q, want a failure that names K_SINK", code, p.log())
	}
}
