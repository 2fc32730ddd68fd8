package console

import (
	"strings"
	"testing"
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
