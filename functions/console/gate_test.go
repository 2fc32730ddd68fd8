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
		"pending": {`aria-checked="true"`, `name="require" value="off"`, "The gate is not in place yet.", `class="notice amber"`},
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

func TestGateConfirmation(t *testing.T) {
	t.Parallel()
	const call = "GET /api/v1/projects/shop/environments/prod/apps/hello/gate/forecast"
	forecast := func(usable int) wire.GateForecast {
		return wire.GateForecast{Keys: wire.AppKeys{Usable: usable, Expired: 1}, Observed: wire.Observed{State: wire.NotObserved, Message: "The number is unknown."}}
	}
	tests := []struct {
		name   string
		answer func(o *office)
		has    []string
		hasNo  string
	}{
		{
			"usable keys", func(o *office) { o.answer(call, 200, forecast(1)) },
			[]string{"1 key can access hello. Requests without a valid key will be denied.", "1 expired key will be denied.", "The number is unknown.", `class="button primary"`},
			"no stored requests",
		},
		{
			"no keys", func(o *office) { o.answer(call, 200, forecast(0)) },
			[]string{"No key can access hello, so all requests will be denied.", `class="button danger"`},
			"is unknown: ",
		},
		{
			"failed forecast", func(o *office) { o.refuse(call, http.StatusTooManyRequests, "rate_limited") },
			[]string{"Requests without a valid key will be denied.", "The number of keys that can access the app is unknown: The API says rate_limited."},
			"can access hello",
		},
		{
			"no response", func(o *office) { o.answer(call, http.StatusBadGateway, "") },
			[]string{"The number of keys that can access the app is unknown: The management API did not respond."},
			"can access hello",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.hello("ungated", "")
			tt.answer(o)
			a := o.get(helloPath + "/gate?require=on&page=settings")
			a.Shows(http.StatusOK, append(tt.has, "Turn on Require API key for hello?", `name="require" value="on"`, `name="page" value="settings"`, ">Turn on</button>")...)
			if strings.Contains(a.Text(), tt.hasNo) {
				t.Errorf("got %s, want no %q", a.Text(), tt.hasNo)
			}
		})
	}
	o := newOffice(t)
	o.hello("engaged", "")
	o.get(helloPath + "/gate?require=on").Shows(http.StatusSeeOther)
	o.get(helloPath+"/gate?require=off").Shows(http.StatusOK, "Turn off Require API key for hello?")
	o.hello("ungated", "")
	o.refuse("PATCH /api/v1/projects/shop/environments/prod/apps/hello", http.StatusConflict, "conflict")
	o.post(helloPath+"/gate", url.Values{"require": {"on"}}).Shows(http.StatusConflict, "The API says conflict.", "Turn on Require API key for hello?")
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
