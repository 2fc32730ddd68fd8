package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

const requestsPath = "/console/projects/shop/requests"

func TestFindRequest(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	key, prefix, name := "key-ab12cd34", "ab12cd34", "<b>Checkout</b>"
	denial := wire.Denial{
		At: time.Now(), Code: "invalid_key", Reason: "expired", Explanation: "The key has expired.", Environment: "prod", App: "hello",
		KeyID: &key, KeyPrefix: &prefix, KeyName: wire.Text(name), Method: "<i>", Replica: "checker-0",
	}
	foreign := denial
	foreign.KeyID, foreign.KeyPrefix, foreign.KeyName, foreign.Method = nil, nil, "", ""
	const call = "GET /api/v1/projects/shop/requests/r-1"
	o.answer(call, 200, wire.ExplainedRequest{RequestID: "r-1", Denials: []wire.Denial{denial, foreign}, Asked: 2, Answered: 1})
	body := o.post(requestsPath, url.Values{"id": {" r-1 "}}).Text()
	for _, want := range []string{
		"The key has expired.", "/console/projects/shop/environments/prod/apps/hello", "/environments/prod/api-keys/key-ab12cd34",
		"&lt;b&gt;Checkout", "&lt;i&gt;", "Not a key of this project", "1 of 2 checkers did not respond", `value="r-1"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	o.answer(call, 200, wire.ExplainedRequest{RequestID: "r-1", Denials: []wire.Denial{}, Asked: 2, Answered: 2})
	if body := o.post(requestsPath, url.Values{"id": {"r-1"}}).Text(); !strings.Contains(body, "No denial found") || strings.Contains(body, "did not respond") {
		t.Error("the page does not show that no denial was found")
	}
}

// TestRequestIsFoundByPost checks that a link fills the form without searching.
func TestRequestIsFoundByPost(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if body := o.get(requestsPath + "?id=r-1").Text(); !strings.Contains(body, `value="r-1"`) || !strings.Contains(body, `method="post"`) {
		t.Errorf("page of the link: got %s", body)
	}
	o.post(requestsPath, url.Values{"id": {"r-1"}, "csrf": {""}}).Shows(http.StatusForbidden)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, called := o.queries["GET /api/v1/projects/shop/requests/r-1"]; called {
		t.Error("the console searched for the request")
	}
}

func TestFindRequestForm(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if w := o.get(requestsPath); w.Status != http.StatusOK || !strings.Contains(w.Text(), `name="id"`) || strings.Contains(w.Text(), "No denial found") {
		t.Errorf("got %d %s", w.Status, w.Body)
	}
	o.refuse("GET /api/v1/projects/shop/requests/a b", 400, "invalid_parameter")
	o.post(requestsPath, url.Values{"id": {"a b"}}).Shows(http.StatusBadRequest, `id="e-id"`, `value="a b"`)
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "viewer"})
	if body := o.get(requestsPath).Text(); strings.Contains(body, `name="id"`) || strings.Contains(body, "Find a request</a>") {
		t.Error("the page offers the search to a viewer")
	}
}
