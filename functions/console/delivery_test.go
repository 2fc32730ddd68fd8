package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/wire"
)

const apiHello = "/api/v1/projects/shop/environments/prod/apps/hello"

func (o *office) deliveries(more ...wire.WebhookDelivery) {
	at := time.Now().Add(-time.Minute)
	items := more
	for _, result := range hook.Results() {
		d := wire.WebhookDelivery{ID: string(result), At: at, LastAt: at, Count: 1, Result: string(result), RequestID: wire.Text("r-" + result)}
		switch result {
		case hook.Deployed:
			d.Revision, d.Commit = 4, "9fceb02d0ae598e95dc970b74767f19372d61af8"
		case hook.Building:
			d.Build, d.Event, d.Delivery = 7, "push", "72d3162e"
		case hook.Replayed:
			d.Build = 7
		case hook.Ignored:
			d.Reason = "Only push events trigger a deployment."
		case hook.Refused:
			d.Code = "image_required"
		case hook.Unproven:
			d.Code, d.Count, d.At = "invalid_token", 1012, at.Add(-time.Hour)
		case hook.Throttled, hook.Broken, hook.Ponged:
			d.Code = "unavailable"
		}
		items = append(items, d)
	}
	o.answer("GET "+apiHello+"/webhook/deliveries", 200, wire.List[wire.WebhookDelivery]{Items: items})
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	o.answer("GET "+apiHello+"/webhook", 200, wire.Webhook{Enabled: true, URL: "http://x"})
	o.deliveries()
	page := o.get(helloPath + "/deliveries").Text()
	for _, want := range []string{
		`<span class="badge good">Deployment</span> <bdi>Created</bdi> <a href="` + helloPath + `/deploys#revision-4">revision 4</a>`,
		`Requested</bdi> <a href="` + helloPath + `/builds#build-7">build 7</a>`,
		`Repeated call, no changes made</bdi>: <a`,
		"Only push events trigger a deployment.", "Ping succeeded", "Rejected with image_required", "a service did not respond: unavailable",
		`1,012 calls without a valid token since</bdi> <time`, "last call <time", "A call over the rate limit</bdi>", "push event", "pipeline", "72d3162e",
		`id="request-deployed"`, "r-deployed", `action="` + helloPath + `/deliveries/test"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestHostileDeliveries(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	const hostile = `"><script>alert(1)</script><a href="javascript:alert(1)">`
	o.deliveries(wire.WebhookDelivery{
		ID: hostile, Count: 1, Result: hostile, Event: hostile, Delivery: hostile, Commit: hostile, Reason: hostile, Code: hostile, RequestID: hostile,
	})
	page := o.get(helloPath + "/deliveries").Text()
	if strings.Contains(page, "<script>alert") || strings.Contains(page, `<a href="javascript:`) || !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Errorf("got %s", page)
	}
}

func TestDeliveriesWhileDisabled(t *testing.T) {
	t.Parallel()
	for role, may := range map[string]bool{"viewer": false, "developer": true} {
		o := newOffice(t)
		o.hello("ungated", "")
		o.answer("GET "+apiHello+"/webhook/deliveries", 200, wire.List[wire.WebhookDelivery]{})
		o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: role})
		page := o.get(helloPath + "/deliveries").Text()
		if !strings.Contains(page, "Webhook disabled") || strings.Contains(page, "Send a test") || strings.Contains(page, "Enable webhook") != may {
			t.Errorf("disabled, %s: got %s", role, page)
		}
		o.answer("GET "+apiHello+"/webhook", 200, wire.Webhook{Enabled: true})
		if page := o.get(helloPath + "/deliveries").Text(); strings.Contains(page, "Send a test") != may || !strings.Contains(page, "No deliveries") {
			t.Errorf("enabled, %s: got %s", role, page)
		}
	}
}

func TestSendATest(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	o.answer("GET "+apiHello+"/webhook", 200, wire.Webhook{Enabled: true, URL: "http://x"})
	o.deliveries()
	for _, tt := range []struct {
		test  wire.WebhookTest
		wants []string
	}{
		{
			wire.WebhookTest{Result: "pong", Status: 200, Message: "The webhook responded to the ping.", RequestID: "r-9", DurationMS: 12},
			[]string{`class="notice good" role="status"`, "The webhook responded to the ping.", "HTTP 200 after 12 ms", "r-9"},
		},
		{
			wire.WebhookTest{Result: "unreachable", Message: "It <b>cannot</b> be reached.", RequestID: "r-9", DurationMS: 5000},
			[]string{`class="notice bad" role="status"`, "Test failed.", "It &lt;b&gt;cannot", "No response after 5000 ms"},
		},
	} {
		o.answer("POST "+apiHello+"/webhook/test", 200, tt.test)
		w := o.post(helloPath+"/deliveries/test", url.Values{})
		for _, want := range tt.wants {
			w.Shows(http.StatusOK, want)
		}
	}
	o.refuse("POST "+apiHello+"/webhook/test", 409, "conflict")
	o.post(helloPath+"/deliveries/test", url.Values{}).Shows(http.StatusConflict, `role="alert"`)
	if w := o.get(helloPath + "/deliveries/test"); w.Status != http.StatusSeeOther || w.Header.Get("Location") != helloPath+"/deliveries" {
		t.Errorf("reload: got %d to %s", w.Status, w.Header.Get("Location"))
	}
}
