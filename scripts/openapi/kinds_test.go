package main

import (
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
)

// TestPatterns checks that the patterns accept exactly the values that the domain packages accept.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]func(string) bool{
		"project":   app.ValidLabel,
		"app_name":  func(s string) bool { return app.CheckName(s) == nil },
		"namespace": app.ValidNamespace,
		"username":  user.ValidName,
		"plan_id":   plan.ValidID,
		"key_id":    func(s string) bool { _, ok := apikey.ID(s).Prefix(); return ok },
		"commit":    func(s string) bool { _, err := hook.ParseCommit(s); return err == nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kinds[name]
			pattern := regexp.MustCompile(k.pattern)
			short := func(s string) bool { return k.length[1] == 0 || int64(len(s)) <= k.length[1] }
			rapid.Check(t, func(t *rapid.T) {
				if s := rapid.StringMatching(k.pattern).Filter(short).Draw(t, "described"); !valid(s) {
					t.Fatalf("%q matches the pattern: got invalid, want valid", s)
				}
				s := rapid.StringMatching(`(plan-|key-)?[-._a-zA-Z0-9é\n]{0,70}`).Draw(t, "any")
				if described := pattern.MatchString(s) && short(s); described != valid(s) {
					t.Fatalf("%q: got match %t, want %t", s, described, valid(s))
				}
			})
			if example, ok := k.example.(string); !ok || !valid(example) {
				t.Errorf("example %v: got invalid, want valid", k.example)
			}
		})
	}
}

// TestQueryValuesAreChecked checks that the API rejects the values that the document does not list.
func TestQueryValuesAreChecked(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, row := range api.Table() {
		if row.Method != http.MethodGet {
			continue
		}
		for _, f := range reflect.VisibleFields(row.Request) {
			kind := f.Tag.Get("kind")
			if f.Tag.Get("query") == "" || len(kinds[kind].values) == 0 && api.Allowed(kind) == nil {
				continue
			}
			checked++
			if got, want := all(api.Allowed(kind)), kinds[kind].values; !slices.Equal(got, want) {
				t.Errorf("%s: values of %s: got %v, want %v", row.Pattern(), f.Name, got, want)
			}
		}
	}
	if checked < 5 {
		t.Errorf("enumerated parameters: got %d, want at least 5", checked)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	text := func(n int64) string { return strings.Repeat("a", int(n)) }
	for name, check := range map[string]func(int64) error{
		"password":  func(n int64) error { return user.CheckPassword(text(n)) },
		"plan_name": func(n int64) error { return plan.CheckName(text(n)) },
		"key_name":  func(n int64) error { return apikey.CheckName(text(n)) },
	} {
		least, most := kinds[name].length[0], kinds[name].length[1]
		if check(least) != nil || check(most) != nil || check(most+1) == nil || least > 0 && check(least-1) == nil {
			t.Errorf("%s: bounds differ from the described %d to %d", name, least, most)
		}
	}
	if d, err := time.ParseDuration(kinds["grace"].initial.(string)); err != nil || d != apikey.DefaultGrace { //nolint:forcetypeassert // a text
		t.Errorf("grace: got %v, %v, want %v", d, err, apikey.DefaultGrace)
	}
}
