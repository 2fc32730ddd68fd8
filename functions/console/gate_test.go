package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
)

// TestPreflightSetting: the form changes how the gate handles preflights, unless another user
// has changed that since the form was loaded.
func TestPreflightSetting(t *testing.T) {
	t.Parallel()
	const (
		call = "/api/v1/projects/shop/environments/prod/apps/hello"
		path = "/console/projects/shop/environments/prod/apps/hello/settings/preflight"
	)
	o := newOffice(t)
	o.answer("GET "+call, 200, wire.App{Name: "hello", Project: "shop", Environment: "prod", Preflight: "app"})
	o.answer("PATCH "+call, 200, wire.App{Name: "hello", Project: "shop", Environment: "prod", Preflight: "refuse"})
	if body := o.get(path).Body.String(); !strings.Contains(body, `<option value="app" selected>`) || !strings.Contains(body, `value="refuse"`) {
		t.Errorf("form: %s", body)
	}
	for _, tt := range []struct {
		was, handling string
		status        int
		want          []string // changes so far
	}{
		{was: "app", handling: "app", status: http.StatusSeeOther},
		{was: "other", handling: "refuse", status: http.StatusConflict},
		{was: "app", handling: "refuse", status: http.StatusSeeOther, want: []string{"PATCH " + call + ` {"preflight":"refuse"}`}},
	} {
		w := o.post(path, url.Values{"preflight": {tt.handling}, "was_preflight": {tt.was}})
		if diff := cmp.Diff(tt.want, o.changes()); diff != "" || w.Code != tt.status {
			t.Errorf("from %s to %s: status %d, want %d; calls (-want +got):\n%s", tt.was, tt.handling, w.Code, tt.status, diff)
		}
	}
	o.refuse("PATCH "+call, 422, "invalid_preflight")
	if w := o.post(path, url.Values{"preflight": {"other"}, "was_preflight": {"app"}}); w.Code != 422 || !strings.Contains(w.Body.String(), "invalid_preflight") {
		t.Errorf("an unknown value: status %d %s", w.Code, w.Body)
	}
}
