package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestPreflightSetting(t *testing.T) {
	t.Parallel()
	const (
		call = "/api/v1/projects/shop/environments/prod/apps/hello"
		path = "/console/projects/shop/environments/prod/apps/hello/settings/preflight"
	)
	o := newOffice(t)
	o.answer("GET "+call, 200, wire.App{Name: "hello", Project: "shop", Environment: "prod", Preflight: "app"})
	o.answer("PATCH "+call, 200, wire.App{Name: "hello", Project: "shop", Environment: "prod", Preflight: "refuse"})
	if body := o.get(path).Text(); !strings.Contains(body, `<option value="app" selected>`) || !strings.Contains(body, `value="refuse"`) {
		t.Errorf("form: got %s", body)
	}
	for _, tt := range []struct {
		was, handling string
		status        int
		want          []string // calls so far
	}{
		{was: "app", handling: "app", status: http.StatusSeeOther},
		{was: "other", handling: "refuse", status: http.StatusConflict},
		{was: "app", handling: "refuse", status: http.StatusSeeOther, want: []string{"PATCH " + call + ` {"preflight":"refuse"}`}},
	} {
		w := o.post(path, url.Values{"preflight": {tt.handling}, "was_preflight": {tt.was}})
		if diff := cmp.Diff(tt.want, o.changes()); diff != "" || w.Status != tt.status {
			t.Errorf("from %s to %s: status: got %d, want %d; calls (-want +got):\n%s", tt.was, tt.handling, w.Status, tt.status, diff)
		}
	}
	o.refuse("PATCH "+call, 422, "invalid_preflight")
	o.post(path, url.Values{"preflight": {"other"}, "was_preflight": {"app"}}).Shows(422, "invalid_preflight")
}

func TestGateInSettings(t *testing.T) {
	t.Parallel()
	for state, has := range map[string][]string{
		"ungated": {`aria-checked="false"`, `name="require" value="on"`, "Anyone who knows the URL"},
		"pending": {`aria-checked="true"`, "The gate is not in place yet.", `class="notice amber"`},
		"engaged": {`aria-checked="true"`, "API key required"},
	} {
		o := newOffice(t)
		o.hello(state, "")
		page := o.get(helloPath + "/settings").Text()
		for _, text := range append(has, "Require API key", `name="page" value="settings"`) {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not contain %q: %s", state, text, page)
			}
		}
	}
	o := newOffice(t)
	o.hello("ungated", "")
	o.answer("PATCH /api/v1/projects/shop/environments/prod/apps/hello", 200, wire.App{Name: "hello", Project: "shop", Environment: "prod"})
	w := o.post(helloPath+"/gate", url.Values{"require": {"on"}, "page": {"settings"}})
	if got := w.Header.Get("Location"); w.Status != http.StatusSeeOther || !strings.HasPrefix(got, helloPath+"/settings") {
		t.Errorf("got %d to %q", w.Status, got)
	}
}

func TestRollbackOfTheCurrentRevision(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.hello("ungated", "")
	o.answer("GET /api/v1/projects/shop/environments/prod/apps/hello/deployments", 200,
		wire.List[wire.Deployment]{Items: []wire.Deployment{{Revision: 2, Image: "a:2", Status: "live", Current: true}, {Revision: 1, Image: "a:1", Status: "superseded"}}})
	page := o.get(helloPath + "/deploys").Text()
	for _, revision := range []string{"1", "2"} {
		if !strings.Contains(page, helloPath+"/deploys/"+revision+"/rollback") {
			t.Errorf("the page has no button for revision %s: %s", revision, page)
		}
	}
}
