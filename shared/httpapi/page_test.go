package httpapi

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestReadPage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query string
		want        api.Page
		ok          bool
	}{
		{"nothing", "", api.Page{Size: 50}, true},
		{"both", "page_size=7&page_token=abc", api.Page{Size: 7, Token: "abc"}, true},
		{"one", "page_size=1", api.Page{Size: 1}, true},
		{"the most", "page_size=500", api.Page{Size: 500}, true},
		{"empty is not given", "page_size=&page_token=", api.Page{Size: 50}, true},
		{"none", "page_size=0", api.Page{}, false},
		{"too many", "page_size=501", api.Page{}, false},
		{"negative", "page_size=-1", api.Page{}, false},
		{"huge", "page_size=99999999999999999999", api.Page{}, false},
		{"a fraction", "page_size=1.5", api.Page{}, false},
		{"text", "page_size=all", api.Page{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got api.Page
			err := bindQuery(tt.query, reflect.ValueOf(&got).Elem())
			if (err == nil) != tt.ok || err != nil && !problem.Is(err, problem.InvalidPage) {
				t.Errorf("error is %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}
