package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tests := []struct{ page, field, bounds string }{
		{"plans/new", "rate", `min="0.01" max="100000" step="any" inputmode="decimal"`},
		{"plans/new", "burst", `min="1" max="1000000" step="1" inputmode="numeric"`},
		{"plans/new", "quota", `min="1" max="1000000000000" step="1" inputmode="numeric"`},
		{"new-app", "port", `min="1" max="65535" step="1" inputmode="numeric"`},
	}
	for _, tt := range tests {
		page := o.get("/console/projects/shop/environments/prod/" + tt.page).Text()
		_, input, _ := strings.Cut(page, `<input id="f-`+tt.field+`"`)
		input, _, _ = strings.Cut(input, ">")
		if !strings.Contains(input, `type="number"`) || !strings.Contains(input, tt.bounds) {
			t.Errorf("%s: field %s: got%s, want %s", tt.page, tt.field, input, tt.bounds)
		}
	}
}

func TestPlanPreview(t *testing.T) {
	t.Parallel()
	const (
		call = "/api/v1/projects/shop/environments/prod/plans/plan-starter"
		path = "/console/projects/shop/environments/prod/plans/plan-starter/edit"
	)
	quota, period := int64(500), "day"
	fields := func(quota string) url.Values {
		return url.Values{
			"name": {"Starter"}, "rate": {"10"}, "burst": {"20"}, "quota": {quota}, "quota_period": {"day"}, "quota_mode": {"soft"},
			"was_name": {"Starter"}, "was_rate": {"10"}, "was_burst": {"20"}, "was_quota": {"1000"}, "was_quota_period": {"day"}, "was_quota_mode": {"soft"},
		}
	}
	o := newOffice(t)
	was := int64(1000)
	o.answer("GET "+call, 200, wire.Plan{ID: "plan-starter", Name: "Starter", Rate: 10, Burst: 20, Quota: &was, QuotaPeriod: &period})
	o.answer("POST "+call+"/forecast", 200, wire.PlanForecast{
		Quota: &quota, QuotaPeriod: &period, From: "2025-12-13", Keys: 120, Exceeding: 101, Rate: wire.Unknown,
		WouldExceed: []wire.QuotaExcess{
			{NamedKey: wire.NamedKey{KeyID: "key-ab12cd34", Name: "Checkout <team>"}, PeriodStart: "2026-03-12", Used: 1234567, Quota: 500, Periods: 7},
			{NamedKey: wire.NamedKey{KeyID: "key-zz99yy88"}, PeriodStart: "2026-01-01", Used: 501, Quota: 500, Periods: 1},
		},
	})
	if form := o.get(path).Text(); !strings.Contains(form, `<button class="button" type="submit" formaction="`+path+`/preview#preview">Preview</button>`) {
		t.Errorf("form: got %s, want a button for the preview", form)
	}
	o.post(path+"/preview", fields("500")).Shows(http.StatusOK,
		`id="preview"`, "Nothing is saved yet.", "Since 2025-12-13, 101 of 120 keys used more than this quota in at least one day.",
		"The effect of rate and burst is unknown", "Checkout &lt;team&gt;", "1,234,567", "from 12 March 2026", "key-zz99yy88</code>",
		"Only the 2 keys with the most requests are listed.", `value="500"`, `name="was_quota" value="1000"`, `action="`+path+`"`)
	want := []string{"POST " + call + `/forecast {"quota":500,"quota_period":"day"}`}
	if diff := cmp.Diff(want, o.changes()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	o.refuse("POST "+call+"/forecast", http.StatusTooManyRequests, "rate_limited")
	o.post(path+"/preview", fields("500")).Shows(http.StatusTooManyRequests, "The API says rate_limited.", "Save plan", `value="500"`)
	o.post(path+"/preview", fields("many")).Shows(http.StatusUnprocessableEntity, "Enter a whole number such as 10000")
	stale := fields("500")
	stale.Set("was_quota", "900")
	o.post(path+"/preview", stale).Shows(http.StatusConflict, "Another user changed this to “1000” in the meantime.")
	if slices.ContainsFunc(o.changes(), func(call string) bool { return strings.HasPrefix(call, "PATCH ") }) {
		t.Errorf("got the changes %q, want none of the plan", o.changes())
	}
	o.get(path+"/preview").Shows(http.StatusOK, "Edit plan") // after a reload
}
