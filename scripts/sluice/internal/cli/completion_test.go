package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// TestCompletion checks the completions of the last word of a line; "_" is an empty word.
func TestCompletion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want []string
	}{
		{"app show _", []string{"hello\tregistry.example.com/shop/hello:v1", "site\tregistry.example.com/shop/site@sha256:" + strings.Repeat("0", 63) + "1"}},
		{"app build sh", []string{"show\tShow a build"}},
		{"app build si", []string{"site\tregistry.example.com/shop/site@sha256:" + strings.Repeat("0", 63) + "1"}},
		{"app build show site _", nil},
		{"app create _", nil},
		{"app show hello _", nil},
		{"plan show plan-m", []string{"plan-metered\tMetered"}},
		{"key create --plan plan-s", []string{"plan-starter\tStarter"}},
		{"key list --app h", []string{"hello\tregistry.example.com/shop/hello:v1"}},
		{"key list --status _", []string{"active", "disabled", "revoked", "expired"}},
		{"key revoke _", []string{"key-ab12cd34\tCheckout team"}},
		{"app rollback hello --revision _", []string{"4\tregistry.example.com/shop/hello:v2, rolling_out", "3\tregistry.example.com/shop/hello:v1, superseded"}},
		{"app rollback --revision _", nil},
		{"app promote hello --revision _", nil},
		{"app promote hello --from p", []string{"prod\tshop-prod"}},
		{"context use _", []string{"test"}},
		{"whoami --context t", []string{"test"}},
		{"project show l", []string{"lab\tviewer"}},
		{"plan list --project s", []string{"shop\towner"}},
		{"plan list --project lab --environment _", []string{"dev", "prod"}},
		{"environment delete p", []string{"prod\tshop-prod"}},
		{"environment create p", nil},
		{"member remove b", []string{"bob\tviewer"}},
		{"token revoke _", []string{"nightly\tdeveloper, active", "infrastructure\towner, expired"}},
		{"member set bob v", []string{"viewer"}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			got := completed(newPerson(t, newFake(t, shop()).URL), tt.line)
			check.Equal(t, "offered", tt.want, got)
		})
	}
}

func completed(p *person, line string) []string {
	p.t.Helper()
	words := strings.Fields("__complete " + line)
	if last := len(words) - 1; words[last] == "_" {
		words[last] = ""
	}
	r := p.runs(words...)
	if r.exit != 0 {
		p.t.Errorf("sluice %s: %s", line, r)
	}
	var offered []string
	for l := range strings.Lines(r.out) {
		if l = strings.TrimSuffix(l, "\n"); !strings.HasPrefix(l, ":") {
			offered = append(offered, strings.TrimSuffix(l, "\t"))
		}
	}
	return offered
}

func TestFailedCompletion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fake, *person){
		"not signed in": func(_ *fake, p *person) { p.home = t.TempDir() },
		"forbidden":     func(f *fake, _ *person) { f.all = &answer{http.StatusForbidden, `{"code":"forbidden","message":"M."}`} },
		"unavailable":   func(f *fake, _ *person) { f.all = &answer{http.StatusServiceUnavailable, ""} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shop())
			p := newPerson(t, f.URL)
			p.tries = 4
			change(f, p)
			if got := completed(p, "plan show _"); got != nil || len(f.requests()) > 1 {
				t.Errorf("got completions %q after requests %q, want none after at most one", got, f.requests())
			}
		})
	}
}
