package client

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, from, to, want string }{
		{"default", "", "", ""},
		{"window", "2026-03-01", "2026-03-14", "from=2026-03-01&to=2026-03-14"},
		{"from", "2026-03-01", "", "from=2026-03-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var path, query string
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, query = r.URL.Path, r.URL.RawQuery
				_, _ = w.Write([]byte(`{"key_id":"key-ab12cd34","last_seen":"2026-03-14","totals":{"allowed":1},"days":[{"date":"2026-03-14","rate_denied":2}]}`))
			}))
			got, err := c.Usage(t.Context(), "shop", "key-ab12cd34", tt.from, tt.to)
			check.OK(t, err)
			day := "2026-03-14"
			want := wire.Usage{
				KeyID: "key-ab12cd34", LastSeen: &day, UsageReport: wire.UsageReport{
					Totals: wire.UsageTotals{Allowed: 1}, Days: []wire.UsageDay{{Date: day, UsageTotals: wire.UsageTotals{RateDenied: 2}}},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" || query != tt.want || path != "/api/v1/projects/shop/api-keys/key-ab12cd34/usage" {
				t.Errorf("%s?%s (-want +got):\n%s", path, query, diff)
			}
		})
	}
}
