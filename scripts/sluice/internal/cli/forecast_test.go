package cli

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	gatePath         = "GET /projects/shop/environments/prod/apps/hello/gate/forecast"
	planForecastPath = "POST /projects/shop/environments/prod/plans/plan-starter/forecast"
)

func TestForecastBeforeConfirmation(t *testing.T) {
	t.Parallel()
	const (
		unknown   = "The effect on keys is unknown: "
		planQuery = "Update plan-starter of shop/prod? [y/N] "
		gateQuery = "Require an API key for hello of shop/prod? [y/N] "
	)
	failing := func(status int, code string) []answer {
		return []answer{{status, `{"code":"` + code + `","message":"The message of ` + code + `."}`}}
	}
	tests := []struct {
		name, command string
		answers       map[string][]answer
		exit          int
		has           []string // standard error
		hasNo         string
	}{
		{
			"gate", "app gate on hello", nil, 0,
			[]string{
				"12 keys can access hello. Requests without a valid key will be denied.\n3 of these keys have no stored requests.\n" +
					"1 disabled key and 2 expired keys will be denied.\nThe number is unknown.\n" + gateQuery,
			},
			unknown,
		},
		{
			"gate without keys", "app gate on hello",
			map[string][]answer{gatePath: ok(strings.Replace(gateForecastJSON, `"usable":12,"disabled":1,"expired":2,"never_seen":3`, `"usable":0,"disabled":0,"expired":0,"never_seen":0`, 1))},
			0,
			[]string{"No key can access hello, so all requests will be denied.\nThe number is unknown.\n" + gateQuery},
			"expired",
		},
		{
			"gate without a forecast", "app gate on hello",
			map[string][]answer{gatePath: failing(http.StatusTooManyRequests, "rate_limited")},
			0,
			[]string{unknown + "The message of rate_limited.\nRequests without a valid key will be denied.\n" + gateQuery},
			"can access",
		},
		{
			"gate, signed out", "app gate on hello",
			map[string][]answer{gatePath: failing(http.StatusUnauthorized, "unauthenticated")},
			3,
			[]string{"error: The message of unauthenticated."},
			"[y/N]",
		},
		{
			"gate of a missing app", "app gate on hello",
			map[string][]answer{gatePath: failing(http.StatusNotFound, "not_found")},
			exitNotFound,
			[]string{"error: The message of not_found. (not_found)\n"},
			"[y/N]",
		},
		{
			"gate, forbidden", "app gate on hello",
			map[string][]answer{gatePath: failing(http.StatusForbidden, "forbidden")},
			exitFailed,
			[]string{"error: The message of forbidden. (forbidden)\n"},
			"[y/N]",
		},
		{
			"plan", "plan update plan-starter --quota 500", nil, 0,
			[]string{"Since 2025-12-13, 2 of 3 keys used more than this quota in at least one day.\n", "key-ab12cd34", "1000", "2026-03-12", planQuery},
			unknown,
		},
		{
			"plan with no exceeding keys", "plan update plan-metered --quota 500", nil, 0,
			[]string{"Since 2025-12-13, 0 of 1 keys used more than this quota in at least one month.\nThe first month is incomplete.\n"},
			"[y/N]",
		},
		{
			"plan without a forecast", "plan update plan-starter --quota 500",
			map[string][]answer{planForecastPath: failing(http.StatusServiceUnavailable, "unavailable")},
			0,
			[]string{unknown + "The message of unavailable.\n" + planQuery},
			"used more",
		},
		{
			"plan with an invalid quota", "plan update plan-starter --quota 0",
			map[string][]answer{planForecastPath: failing(http.StatusUnprocessableEntity, "invalid_quota")},
			1,
			[]string{"error: The message of invalid_quota. (invalid_quota)\n"},
			"[y/N]",
		},
		{
			"missing plan", "plan update plan-starter --quota 500",
			map[string][]answer{planForecastPath: failing(http.StatusNotFound, "not_found")},
			exitNotFound,
			[]string{"error: The message of not_found. (not_found)\n"},
			"[y/N]",
		},
		{
			"plan, forbidden", "plan update plan-starter --quota 500",
			map[string][]answer{planForecastPath: failing(http.StatusForbidden, "forbidden")},
			exitFailed,
			[]string{"error: The message of forbidden. (forbidden)\n"},
			"[y/N]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shopWith(tt.answers))
			p := newPerson(t, f.URL)
			p.terminal, p.stdin = true, "y\n"
			r := p.runs(append(strings.Fields(tt.command), "-o", "json")...)
			for _, text := range tt.has {
				if !strings.Contains(r.err, text) {
					t.Errorf("standard error: got %q, want %q", r.err, text)
				}
			}
			if r.exit != tt.exit || strings.Contains(r.err, tt.hasNo) || sentChange(f) != (tt.exit == 0) || strings.Contains(r.out, "keys") {
				t.Errorf("got %swant exit %d without %q on standard error", r, tt.exit, tt.hasNo)
			}
		})
	}
}

// TestScriptsMakeNoForecast checks that commands in scripts send the same requests as before, so
// that they need no further flag and no further role.
func TestScriptsMakeNoForecast(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"app gate on hello", "plan update plan-starter --quota 500"} {
		for _, onTerminal := range []bool{false, true} {
			f := newFake(t, shop())
			p := newPerson(t, f.URL)
			args := strings.Fields(command)
			if p.terminal = onTerminal; onTerminal {
				args = append(args, "--yes")
			}
			r := p.runs(args...)
			if forecasts := func(request string) bool { return strings.Contains(request, "/forecast") }; r.exit != 0 || slices.ContainsFunc(f.requests(), forecasts) || !sentChange(f) {
				t.Errorf("sluice %q: got %safter requests %q, want no forecast", args, r, f.requests())
			}
		}
	}
}
