package usage

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.rollUp("2024-02-28", usage.Totals{Allowed: 7})
	h.flush("2024-03-01", "a-1", usage.Totals{Allowed: 1, RateDenied: 2, QuotaDenied: 3})
	h.flush("2024-03-01", "b-1", usage.Totals{Allowed: 10, RateDenied: 20, QuotaDenied: 30})
	a := h.get("/api/v1/projects/shop/api-keys/key-aaaaaaaa/usage?from=2024-02-28&to=2024-03-01")
	const want = `{"key_id":"key-aaaaaaaa","from":"2024-02-28","to":"2024-03-01","retention_days":92,` +
		`"totals":{"allowed":18,"rate_denied":22,"quota_denied":33},"days":[` +
		`{"date":"2024-02-28","allowed":7,"rate_denied":0,"quota_denied":0},` +
		`{"date":"2024-02-29","allowed":0,"rate_denied":0,"quota_denied":0},` +
		`{"date":"2024-03-01","allowed":11,"rate_denied":22,"quota_denied":33}],"incomplete":[],"last_seen":"2024-03-01","as_of":"2024-03-02T12:00:00Z"}` + "\n"
	check.Equal(t, "report", want, string(a.Is(http.StatusOK).Body))
}

func TestKeyWithoutTraffic(t *testing.T) {
	t.Parallel()
	u := start(t, 0).usage("")
	want := wire.Usage{KeyID: "key-aaaaaaaa", AsOf: time.Date(2024, 3, 2, 12, 0, 0, 0, time.UTC), UsageReport: wire.UsageReport{
		From: "2023-12-04", To: "2024-03-02", RetentionDays: 92, Days: u.Days, Incomplete: []string{},
	}}
	if diff := cmp.Diff(want, u); diff != "" || len(u.Days) != 90 {
		t.Errorf("got %d days (-want +got):\n%s", len(u.Days), diff)
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	tests := []struct {
		name, query, from, to string
		days                  int
	}{
		{"default", "", "2023-12-04", "2024-03-02", 90},
		{"one day", "?from=2024-02-29&to=2024-02-29", "2024-02-29", "2024-02-29", 1},
		{"92 days", "?from=2023-12-02", "2023-12-02", "2024-03-02", 92},
		{"from before the cutoff", "?from=2023-01-01&to=2023-12-02", "2023-12-02", "2023-12-02", 1},
		{"to in the future", "?from=2024-03-01&to=2030-01-01", "2024-03-01", "2024-03-02", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := h.usage(tt.query)
			if u.From != tt.from || u.To != tt.to || len(u.Days) != tt.days {
				t.Errorf("window: got %s to %s, %d days", u.From, u.To, len(u.Days))
			}
			if u.Days[0].Date != tt.from || u.Days[len(u.Days)-1].Date != tt.to {
				t.Errorf("days: got %s to %s", u.Days[0].Date, u.Days[len(u.Days)-1].Date)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	const path = "/api/v1/projects/shop/api-keys/key-aaaaaaaa/usage"
	tests := []struct {
		name, path string
		status     int
		code       problem.Code
	}{
		{"empty date", path + "?from=", 400, "invalid_date"},
		{"no date", path + "?to=yesterday", 400, "invalid_date"},
		{"no such day", path + "?from=2023-02-29", 400, "invalid_date"},
		{"a time", path + "?from=2024-03-01T00:00:00Z", 400, "invalid_date"},
		{"another parameter", path + "?frm=2024-03-01", 400, "unknown_parameter"},
		{"given twice", path + "?from=2024-03-01&from=2024-03-02", 400, "invalid_parameter"},
		{"no query", path + "?from=%zz", 400, "invalid_parameter"},
		{"control characters", path + "?from=2024-03-0%00", 400, "invalid_date"},
		{"from after to", path + "?from=2024-03-02&to=2024-03-01", 422, "invalid_window"},
		{"from in the future", path + "?from=2024-03-03", 422, "invalid_window"},
		{"entirely before the cutoff", path + "?from=2023-11-01&to=2023-12-01", 422, "window_expired"},
		{"a key of another project", "/api/v1/projects/other/api-keys/key-aaaaaaaa/usage", 404, "not_found"},
		{"no such key", "/api/v1/projects/shop/api-keys/key-bbbbbbbb/usage", 404, "not_found"},
		{"no key's id", "/api/v1/projects/shop/api-keys/aaaaaaaa/usage", 404, "not_found"},
		{"a canary's id", "/api/v1/projects/shop/api-keys/canary.a/usage", 404, "not_found"},
		{"a path for an id", "/api/v1/projects/shop/api-keys/key-aaa%2Faaa/usage", 404, "not_found"},
		{"a missing key with an invalid date", "/api/v1/projects/shop/api-keys/key-bbbbbbbb/usage?from=x", 404, "not_found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			functest.Call{Method: http.MethodGet, Path: tt.path, User: "vera"}.Send(t, h.service.Handler()).Refused(tt.status, tt.code)
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]int{"vera": 200, "ada": 200, "olga": 200, "bob": 403, "": 401} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			for _, id := range []string{"key-aaaaaaaa", "key-bbbbbbbb"} {
				want := want
				if want == 200 && id != "key-aaaaaaaa" {
					want = 404
				}
				start(t, 0).as(user, "/api/v1/projects/shop/api-keys/"+id+"/usage").Is(want)
			}
		})
	}
}

func TestDamagedDocuments(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.flush("2024-03-02", "run-1", usage.Totals{Allowed: 3})
	storetest.Damage(t, h.project, "counters/2024-03-01.run-2.0", map[string]any{"day": "2024-03-01"})
	storetest.Damage(t, h.project, "rollups/key-"+key, nil)
	check.OK(t, h.store.MarkIncomplete(t.Context(), h.day("2024-02-20"), h.day("2024-01-01")))
	u := h.usage("?from=2024-02-28")
	if diff := cmp.Diff([]string{"2024-03-01"}, u.Incomplete); diff != "" || u.Totals.Allowed != 3 {
		t.Errorf("got %d allowed; incomplete days (-want +got):\n%s", u.Totals.Allowed, diff)
	}
	e := h.environmentUsage("shop/environments/prod/usage?from=2024-02-01")
	check.Equal(t, "incomplete days of the environment", []string{"2024-02-20", "2024-03-01"}, e.Incomplete)
}
