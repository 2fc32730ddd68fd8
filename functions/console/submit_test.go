package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestEveryInvalidField(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("POST /api/v1/projects/shop/environments/prod/plans", http.StatusUnprocessableEntity, wire.Error{
		Code: "invalid_name", Message: "Bad name.",
		Errors: []wire.FieldError{
			{Field: "name", Code: "invalid_name", Message: "Bad name."},
			{Field: "rate", Code: "invalid_rate", Message: "Bad rate."},
			{Field: "quota_period", Code: "invalid_quota", Message: "Bad period."},
			{Field: "unknown_field", Code: "invalid_unknown_field", Message: "Bad else."},
		},
	})
	typed := url.Values{"name": {"-"}, "rate": {"0"}, "burst": {"1"}, "quota": {"5"}, "quota_period": {"hour"}}
	for _, c := range []struct {
		name, field, value string
		wrong              []string // names of invalid fields
		focus              string
	}{
		{"by the API", "", "", []string{"name", "rate", "quota_period"}, "name"},
		{"by the console", "rate", "fast", []string{"rate"}, "rate"},
		{"by the console, two", "quota", "many", []string{"rate", "quota"}, "rate"},
	} {
		if c.field != "" {
			typed.Set(c.field, c.value)
		}
		w := o.post(plansPath, typed)
		page := w.Text()
		if w.Status != http.StatusUnprocessableEntity || !strings.Contains(page, "<title>Error: New plan") {
			t.Errorf("%s: got %d, or a title without Error", c.name, w.Status)
		}
		for _, name := range c.wrong {
			if !strings.Contains(page, `id="e-`+name+`"`) {
				t.Errorf("%s: no error at %s", c.name, name)
			}
		}
		if n := strings.Count(page, `class="error"`); n != len(c.wrong) {
			t.Errorf("%s: got %d errors, want %q", c.name, n, c.wrong)
		}
		_, rest, _ := strings.Cut(page, `id="f-`+c.focus+`"`)
		input, _, _ := strings.Cut(rest, ">")
		if strings.Count(page, " autofocus") != 1 || !strings.Contains(input, " autofocus") {
			t.Errorf("%s: the focus is not only on %s", c.name, c.focus)
		}
	}
}
