package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestReadPage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query string
		want        Page
		ok          bool
	}{
		{"nothing", "", Page{Size: 50}, true},
		{"both", "page_size=7&page_token=abc", Page{Size: 7, Token: "abc"}, true},
		{"one", "page_size=1", Page{Size: 1}, true},
		{"the most", "page_size=500", Page{Size: 500}, true},
		{"empty is not given", "page_size=&page_token=", Page{Size: 50}, true},
		{"none", "page_size=0", Page{}, false},
		{"too many", "page_size=501", Page{}, false},
		{"negative", "page_size=-1", Page{}, false},
		{"huge", "page_size=99999999999999999999", Page{}, false},
		{"a fraction", "page_size=1.5", Page{}, false},
		{"text", "page_size=all", Page{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadPage(httptest.NewRequest(http.MethodGet, "/?"+tt.query, nil))
			if (err == nil) != tt.ok || err != nil && !problem.Is(err, problem.InvalidPage) {
				t.Errorf("error is %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}
