package httpapi

import (
	"reflect"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestReadPage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query string
		want        api.Page
		code        problem.Code // "" for none
	}{
		{"nothing", "", api.Page{Size: 50}, ""},
		{"both", "page_size=7&page_token=abc", api.Page{Size: 7, Token: "abc"}, ""},
		{"one", "page_size=1", api.Page{Size: 1}, ""},
		{"the most", "page_size=500", api.Page{Size: 500}, ""},
		{"empty is not given", "page_size=&page_token=", api.Page{Size: 50}, ""},
		{"none", "page_size=0", api.Page{}, problem.InvalidPage},
		{"too many", "page_size=501", api.Page{}, problem.InvalidPage},
		{"negative", "page_size=-1", api.Page{}, problem.InvalidPage},
		{"huge", "page_size=99999999999999999999", api.Page{}, problem.InvalidPage},
		{"a fraction", "page_size=1.5", api.Page{}, problem.InvalidPage},
		{"text", "page_size=all", api.Page{}, problem.InvalidPage},
		{"misspelt", "page_token=abc&pagesize=7", api.Page{Size: 50, Token: "abc"}, problem.UnknownParameter},
		{"size repeated", "page_size=1&page_size=2", api.Page{}, problem.InvalidParameter},
		{"size repeated, empty", "page_size=&page_size=", api.Page{}, problem.InvalidParameter},
		{"token repeated", "page_token=abc&page_token=abc", api.Page{}, problem.InvalidParameter},
		{"unknown repeated", "size=1&size=1", api.Page{}, problem.InvalidParameter},
		{"not a query", "page_size=%zz", api.Page{}, problem.InvalidParameter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got api.Page
			err := bindQuery(tt.query, reflect.ValueOf(&got).Elem())
			if tt.code == "" && err != nil || tt.code != "" && !problem.Is(err, tt.code) {
				t.Errorf("error: got %v", err)
			}
			check.Equal(t, "page", tt.want, got)
		})
	}
}
