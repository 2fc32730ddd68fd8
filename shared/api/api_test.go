package api_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
)

func TestResponsesHaveEveryField(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			if tag := f.Tag.Get("json"); strings.Contains(tag, ",omit") || tag == "" && !f.Anonymous {
				t.Errorf("%s.%s: got tag %q, want a name without omitempty or omitzero", of, f.Name, tag)
			}
			walk(f.Type)
		}
	}
	for _, row := range api.Table() {
		walk(row.Answer)
		for _, other := range row.Others {
			walk(other.Type)
		}
	}
	if len(seen) < 20 {
		t.Errorf("types checked: got %d, want at least 20", len(seen))
	}
}

func TestAcceptedOperationHasLocation(t *testing.T) {
	t.Parallel()
	begins := 0
	for _, row := range api.Table() {
		if row.Need == api.Token || row.Method == http.MethodGet { // status_url contains the URL
			continue
		}
		if (row.Status == http.StatusAccepted) != (row.Begins != nil) {
			t.Errorf("%s: got status %d with Begins %v, want 202 exactly with Begins", row.Pattern(), row.Status, row.Begins)
		}
		if row.Begins == nil {
			continue
		}
		begins++
		names := row.Begins.Parameters()
		if got := names[:len(names)-1]; !slices.Equal(got, row.Parameters()) {
			t.Errorf("%s starts %s: got parameters %v, want %v", row.Pattern(), row.Begins.Pattern(), got, row.Parameters())
		}
	}
	if begins == 0 {
		t.Error("no route starts work")
	}
}
