package httpapi

import (
	"reflect"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

func FuzzReadPage(f *testing.F) {
	for _, q := range []string{"", "page_size=7&page_token=abc", "page_size=0", "page_size=501", "page_size=+5", "page_size=1&page_size=2", "%zz", "page_size=1;x", "page_size=٣"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		var p api.Page
		err := bindQuery(query, reflect.ValueOf(&p).Elem())
		if err != nil {
			if !problem.Is(err, problem.InvalidPage) && !problem.Is(err, problem.InvalidParameter) && !problem.Is(err, problem.UnknownParameter) {
				t.Errorf("%q: got %v", query, err)
			}
			return
		}
		if p.Size < 1 || p.Size > api.MaxPageSize {
			t.Errorf("%q: got size %d", query, p.Size)
		}
	})
}
