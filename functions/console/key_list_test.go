package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestSearchKeys(t *testing.T) {
	t.Parallel()
	const list = "/console/projects/shop/environments/prod/api-keys"
	const full = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"
	key := wire.Key{ID: "key-ab12cd34", Prefix: "ab12cd34", Project: "shop", Environment: "prod", Status: "active"}
	tests := []struct {
		name   string
		typed  url.Values
		found  any
		status int
		to     string
		asked  []string
	}{
		{"nothing", url.Values{"search": {" "}}, nil, 303, list, nil},
		{"text", url.Values{"search": {"Check out"}, "status": {"active"}, "plan": {""}, "app": {"hello"}}, nil, 303, list + "?app=hello&search=Check+out&status=active", nil},
		{
			"a full key in a header",
			url.Values{"search": {`-H 'X-API-Key: ` + full + `'`}},
			wire.FoundKey{Key: key, Secret: "current"},
			303, list + "/key-ab12cd34",
			[]string{`POST /api/v1/projects/shop/api-keys/find {"key":"` + full + `"}`},
		},
		{
			"a full key",
			url.Values{"search": {" " + full + "\n"}, "status": {"active"}},
			wire.FoundKey{Key: key, Secret: "current"},
			303, list + "/key-ab12cd34",
			[]string{`POST /api/v1/projects/shop/api-keys/find {"key":"` + full + `"}`},
		},
	}
	tests = append(tests, tests[len(tests)-1])
	tests[len(tests)-1].name, tests[len(tests)-1].typed = "a full key in another field", url.Values{"app": {full}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			if tt.found != nil {
				o.answer("POST /api/v1/projects/shop/api-keys/find", 200, tt.found)
			}
			w := o.post(list+"/search", tt.typed)
			if got := w.Header.Get("Location"); w.Status != tt.status || got != tt.to {
				t.Errorf("got %d to %s, want %s", w.Status, got, tt.to)
			}
			check.Equal(t, "calls", tt.asked, o.changes())
			if strings.Contains(w.Header.Get("Location")+o.log.String(), full[17:]) {
				t.Error("the key is in a URL or in the log")
			}
		})
	}
}

// TestFullKeyInAddress checks that a URL with a full key is rejected, and that the key is neither
// shown nor logged.
func TestFullKeyInAddress(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdefghijABCDEFGHIJ01234567"
	o := newOffice(t)
	for _, path := range []string{"/console/projects/shop/api-keys?search=", "/console/projects/shop/environments/prod/api-keys/"} {
		w := o.get(path + "sluice_ab12cd34_" + secret)
		if w.Status != http.StatusBadRequest || strings.Contains(w.Text()+o.log.String(), secret) || !strings.Contains(w.Text(), "Rotate the key") {
			t.Errorf("%s: got %d %s", path, w.Status, w.Body)
		}
	}
}

func TestSearchFindsNothing(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"not_found": http.StatusNotFound, "invalid_parameter": http.StatusBadRequest} {
		o := newOffice(t)
		o.refuse("POST /api/v1/projects/shop/api-keys/find", status, code)
		o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.List[wire.Key]{})
		o.answer("GET /api/v1/projects/shop/environments/prod/plans", 200, wire.List[wire.Plan]{})
		w := o.post("/console/projects/shop/environments/prod/api-keys/search", url.Values{"search": {"sluice_ab12cd34_secretsecretsecret"}})
		if body := w.Text(); w.Status != http.StatusUnprocessableEntity || strings.Contains(body, "secretsecret") || !strings.Contains(body, `id="e-search"`) {
			t.Errorf("%s: got %d %s", code, w.Status, body)
		}
	}
}

func TestKeyBadges(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := &request{s: o.service}
	quota := func(used uint64) *wire.KeyUsage {
		return &wire.KeyUsage{Week: []wire.UsageDay{{}}, Quota: &wire.QuotaUse{Quota: 100, Period: "day", Used: used}}
	}
	today := func(allowed, rate uint64) *wire.KeyUsage {
		return &wire.KeyUsage{Week: []wire.UsageDay{{UsageTotals: wire.UsageTotals{RateDenied: 99}}, {UsageTotals: wire.UsageTotals{Allowed: allowed, RateDenied: rate}}}}
	}
	good := badge{toneGood, "Active"}
	leak := &wire.KeyLeak{Secret: wire.LeakedCurrent}
	tests := []struct {
		key        wire.Key
		state, and badge
	}{
		{wire.Key{Status: "active"}, good, badge{}},
		{wire.Key{Status: "active", Usage: quota(79)}, good, badge{}},
		{wire.Key{Status: "active", Usage: quota(80)}, good, badge{toneAmber, "80% of quota used"}},
		{wire.Key{Status: "active", Usage: quota(100)}, badge{toneBad, "Quota used up"}, badge{}},
		{wire.Key{Status: "active", Usage: quota(250)}, badge{toneBad, "Quota used up"}, badge{}},
		{wire.Key{Status: "active", Usage: today(9, 1)}, good, badge{toneAmber, "Over its rate today"}},
		{wire.Key{Status: "active", Usage: today(10, 1)}, good, badge{}},
		{wire.Key{Status: "active", Usage: today(0, 0)}, good, badge{}},
		{wire.Key{Status: "active", Scope: "none"}, badge{Text: "No apps"}, badge{}},
		{wire.Key{Status: "active", Scope: "none", Usage: quota(100)}, badge{Text: "No apps"}, badge{}},
		{wire.Key{Status: "active", Scope: "none", Leak: leak}, badge{Text: "No apps"}, badge{toneBad, "Leaked"}},
		{wire.Key{Status: "active", Leak: leak}, good, badge{toneBad, "Leaked"}},
		{wire.Key{Status: "disabled", Scope: "none"}, badge{Text: "Disabled"}, badge{}},
		{wire.Key{Status: "disabled", Usage: quota(100)}, badge{Text: "Disabled"}, badge{}},
		{wire.Key{Status: "revoked", Usage: quota(100)}, badge{Text: "Revoked"}, badge{}},
	}
	for _, tt := range tests {
		row := r.keyRow(tt.key, nil)
		if row.State != tt.state || row.Use != tt.and {
			t.Errorf("%+v: got %+v and %+v, want %+v and %+v", tt.key, row.State, row.Use, tt.state, tt.and)
		}
		if text := row.statusText(); tt.key.Status == "active" && text != "Active" {
			t.Errorf("%+v: got the status %s, want Active", tt.key, text)
		}
	}
}
