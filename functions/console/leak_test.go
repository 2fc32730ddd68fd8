package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const reportPath = "/console/projects/shop/api-keys/report-leak"

func TestReportLeak(t *testing.T) {
	t.Parallel()
	const full = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"
	o := newOffice(t)
	o.answer("POST /api/v1/leaks/report", 200, wire.LeaksReceived{Received: 1})
	w := o.post(reportPath, url.Values{"key": {"X-API-Key: " + full + "\n"}, "url": {" https://git.example.com/x "}})
	if got := w.Header.Get("Location"); w.Status != http.StatusSeeOther || got != "/console/projects/shop/api-keys" {
		t.Errorf("got %d to %s", w.Status, got)
	}
	check.Equal(t, "calls", []string{`POST /api/v1/leaks/report {"key":"` + full + `","url":"https://git.example.com/x"}`}, o.changes())
	const token = "sluice_st_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123456789"
	o.post(reportPath, url.Values{"key": {"SLUICE_TOKEN=" + token}})
	if got := o.changes(); len(got) != 2 || got[1] != `POST /api/v1/leaks/report {"key":"`+token+`"}` {
		t.Errorf("service token: got the calls %q", got)
	}
	o.refuse("POST /api/v1/leaks/report", http.StatusBadRequest, "invalid_parameter", "key")
	for _, typed := range []string{full, "no key", ""} {
		w := o.post(reportPath, url.Values{"key": {typed}, "url": {"https://git.example.com/x"}})
		body := w.Text()
		if w.Status < 400 || strings.Contains(body+o.log.String(), full[16:]) || !strings.Contains(body, `id="e-key"`) || !strings.Contains(body, "git.example.com/x") {
			t.Errorf("%q: got %d %s", typed, w.Status, body)
		}
	}
}

func TestLeakedTokenAlert(t *testing.T) {
	t.Parallel()
	r := &request{s: newOffice(t).service, project: "shop"}
	alerts := r.tokenAlerts([]wire.LeakedToken{{Name: "nightly", At: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), By: "program:github"}})
	if len(alerts) != 1 || alerts[0].rank() != 1 || alerts[0].What != "nightly" || !strings.Contains(alerts[0].Why, "program:github") || alerts[0].Path != "/console/projects/shop/members" {
		t.Errorf("got %+v", alerts)
	}
}

func TestLeakNote(t *testing.T) {
	t.Parallel()
	r := &request{s: newOffice(t).service}
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status, secret, tone, says string
		use                        badge
	}{
		{"active", wire.LeakedCurrent, toneBad, "still valid", badge{toneBad, "Leaked"}},
		{"disabled", wire.LeakedCurrent, toneBad, "enable the key again", badge{toneBad, "Leaked"}},
		{"expired", wire.LeakedCurrent, toneBad, "Create a new key", badge{toneBad, "Leaked"}},
		{"revoked", wire.LeakedCurrent, toneAmber, "is revoked", badge{}},
		{"active", wire.LeakedEnded, toneAmber, "no longer valid", badge{}},
	} {
		row := r.keyRow(wire.Key{Status: tt.status, Leak: &wire.KeyLeak{At: at, Secret: tt.secret}}, nil)
		if row.Leaked.Tone != tt.tone || !strings.Contains(row.Leaked.Text, tt.says) || row.Use != tt.use {
			t.Errorf("%s, %s: got %+v, %+v", tt.status, tt.secret, row.Leaked, row.Use)
		}
	}
	if row := r.keyRow(wire.Key{Status: "active"}, nil); row.Leaked != nil {
		t.Errorf("without a leak: got %+v, want nil", row.Leaked)
	}
}

func TestProjectSettings(t *testing.T) {
	t.Parallel()
	const path = "/console/projects/shop/settings"
	o := newOffice(t)
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "owner", LeakPolicy: "disable"})
	o.answer("PATCH /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "owner", LeakPolicy: "revoke"})
	if body := o.get(path).Text(); !strings.Contains(body, `<option value="disable" selected>`) || !strings.Contains(body, `value="revoke"`) {
		t.Errorf("form: got %s", body)
	}
	for _, tt := range []struct {
		was, policy, registries string
		status                  int
		asked                   []string
	}{
		{"disable", "disable", "", http.StatusSeeOther, nil},
		{"revoke", "revoke", "", http.StatusSeeOther, nil}, // already stored
		{"other", "revoke", "", http.StatusConflict, nil},
		{"disable", "revoke", "", http.StatusSeeOther, []string{`PATCH /api/v1/projects/shop {"leak_policy":"revoke"}`}},
		{"disable", "disable", "ghcr.io/acme, quay.io", http.StatusSeeOther, []string{
			`PATCH /api/v1/projects/shop {"leak_policy":"revoke"}`, `PATCH /api/v1/projects/shop {"registries":["ghcr.io/acme","quay.io"]}`,
		}},
	} {
		w := o.post(path, url.Values{"leak_policy": {tt.policy}, "was_leak_policy": {tt.was}, "registries": {tt.registries}, "was_registries": {""}})
		if diff := cmp.Diff(tt.asked, o.changes()); diff != "" || w.Status != tt.status {
			t.Errorf("from %s to %s: status: got %d, want %d; calls (-want +got):\n%s", tt.was, tt.policy, w.Status, tt.status, diff)
		}
	}
}
