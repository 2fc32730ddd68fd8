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

// TestAnswersAreWhole: every field of every answer is always there, so that who reads it
// need not tell a field that is left out from one that is null.
func TestAnswersAreWhole(t *testing.T) {
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
				t.Errorf("%s.%s may be left out of an answer, or has no name: %q", of, f.Name, tag)
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
		t.Errorf("only %d types were looked at", len(seen))
	}
}

// TestBegunWorkHasALocation: a call that begins work returns 202 and the address of that work,
// below the same app.
func TestBegunWorkHasALocation(t *testing.T) {
	t.Parallel()
	begins := 0
	for _, row := range api.Table() {
		if row.Need == api.Token || row.Method == http.MethodGet { // status_url of a webhook's call has its address
			continue
		}
		if (row.Status == http.StatusAccepted) != (row.Begins != nil) {
			t.Errorf("%s returns %d and begins %v", row.Pattern(), row.Status, row.Begins)
		}
		if row.Begins == nil {
			continue
		}
		begins++
		names := row.Begins.Parameters()
		if got := names[:len(names)-1]; !slices.Equal(got, row.Parameters()) {
			t.Errorf("%s begins %s", row.Pattern(), row.Begins.Pattern())
		}
	}
	if begins == 0 {
		t.Error("no call begins work")
	}
}
