package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// view is a page in a certain state.
type view struct {
	name string // of the picture: "apps-name-deploys"
	path string
	then func(v *visitor) // first action on the page, or nil
}

func (p view) comes(v *visitor) {
	v.t.Helper()
	v.opens(p.path)
	if p.then != nil {
		p.then(v)
	}
}

// everyView returns all pages of a site with all kinds of content and long names. The pages are
// found by links, one of each shape; filled.views adds the others.
func everyView(t *testing.T) []view {
	t.Helper()
	s := newSite(t)
	f := s.fill()
	var all []view
	for _, path := range reader(t).crawl(s) {
		if !strings.Contains(path, "/environments/"+elsewhere) {
			all = append(all, view{name: s.pictureOf(path), path: path})
		}
	}
	return slices.Concat(all, f.views(s))
}

// pictureOf returns the name of the picture of a page.
func (s site) pictureOf(path string) string {
	name := strings.NewReplacer("/console/projects/{project}", "project", "/console/", "", "/{env}", "", "{name}", "one", "{key}", "one", "{plan}", "one").
		Replace(s.shape(path))
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("/?&=", c) {
			return '-'
		}
		return c
	}, name)
}

const (
	longApp   = "storefront-recommendations-service"
	longImage = "registry.example/commerce-platform/storefront/recommendations-service:2026-11-23.release-candidate.4"
	longPlan  = "Unlimited for internal partners"
	longName  = "Checkout and order management of the storefront team in Europe"
	elsewhere = "staging-europe-west" // another environment
	oneCommit = "0123456789abcdef0123456789abcdef01234567"
)

type filled struct {
	keys   map[string]stacktest.Key // by state
	member person
}

// fill fills a site with all kinds of content.
func (s site) fill() filled {
	s.T.Helper()
	s.App("storefront")
	s.manyRevisions()
	s.builtApp("storefront-search")
	s.Gate(longApp)
	f := filled{keys: s.manyKeys(), member: s.member("developer")}
	s.Webhook(longApp)
	staging := site{s.In(elsewhere)}
	staging.App(longApp)
	return f
}

// manyKeys creates keys of every status, with and without a quota.
func (s site) manyKeys() map[string]stacktest.Key {
	s.T.Helper()
	gold := s.Plan(wire.CreatePlan{
		Name: new("Gold"), Rate: new(100.0), Burst: new(int64(1000)),
		Quota: new(int64(1_000_000_000)), QuotaPeriod: new("month"), QuotaMode: new("hard"),
	})
	free := s.Plan(wire.CreatePlan{Name: new(longPlan)})
	keys := map[string]stacktest.Key{
		"active":   s.named(gold, longName),
		"nameless": s.Key(free, func(k *wire.CreateKey) { k.Apps = []string{longApp, "storefront", "storefront-search"} }),
		"near":     s.Key(gold, expiring("Storefront", 13*24*time.Hour)),
		"expired":  s.Key(free, expiring("Fulfilment", time.Second)),
		"disabled": s.named(free, "Old integration"),
		"revoked":  s.named(gold, "Leaked in a chat"),
		"rotated":  s.named(gold, "Billing"),
	}
	s.Disable(keys["disabled"])
	s.Revoke(keys["revoked"])
	s.Rotate(keys["rotated"], time.Hour)
	s.used(keys["active"], usage.RetentionDays, func(ago int) usage.Totals {
		n := uint64(12_300_000 + 137_000*ago%7_000_000)
		return usage.Totals{Allowed: n, RateDenied: n / 5 * uint64(ago%3), QuotaDenied: n / 9 * uint64(ago%4)}
	})
	return keys
}

// manyRevisions creates a history of the app with the long name: a manual deployment, a webhook
// call with a commit, a failure and a rollback.
func (s site) manyRevisions() {
	s.T.Helper()
	s.App(longApp)
	url, token := s.Webhook(longApp)
	s.deploys(url, token, longImage, 202)
	s.Settled(longApp, 2, "live")
	s.calls(url, token, `{"image":"`+longImage+`","commit":"`+oneCommit+`"}`, 202)
	s.Settled(longApp, 3, "live")
	s.manyDeliveries(url, token)
	_, err := s.Client.Rollback(s.T.Context(), s.Project, s.Env, longApp, 1)
	must(s.T, err)
	s.Settled(longApp, 4, "live")
	s.deploy(longApp, "registry.example/commerce-platform/storefront:broken")
	s.Settled(longApp, 5, "failed")
}

// manyDeliveries calls the webhook of the app with the long name, with long values and without
// authentication.
func (s site) manyDeliveries(url, token string) {
	s.T.Helper()
	long := []string{"X-Service-Token", token, "X-GitHub-Event", strings.Repeat("deployment_protection_rule", 3), "X-GitHub-Delivery", strings.Repeat("72d3162e", 16)}
	s.Post(url, []byte(`{}`), long...)
	s.Post(url, []byte(`{}`), "X-Service-Token", token)
	for range 12 {
		s.Post(url, []byte(`{}`), "X-Service-Token", "wrong")
	}
	s.Deliveries(longApp, 5)
}

// builtApp creates a git app with a build of a commit and a failed build.
func (s site) builtApp(name string) {
	s.T.Helper()
	source := wire.GitSource{Repository: "https://git.example/commerce-platform/storefront/emulate-fail/search.git", Branch: "release/2026-11", Path: "services/search"}
	_, err := s.Client.CreateApp(s.T.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, GitSource: &source})
	must(s.T, err)
	url, token := s.Webhook(name)
	s.calls(url, token, `{"commit":"`+oneCommit+`"}`, 202)
}

// opens returns an action that opens a dialog.
func opens(button string) func(v *visitor) {
	return func(v *visitor) {
		v.t.Helper()
		v.clicks(button)
		if !v.window.noScript && ask[string](v, "dialog") == "" {
			v.t.Errorf("%s opens no dialog on %s", button, v.path())
		}
	}
}

// views returns the pages that the links of everyView do not reach.
func (f filled) views(s site) []view {
	app := func(rest ...string) string { return s.page(append([]string{"apps", longApp}, rest...)...) }
	built := func(rest ...string) string { return s.page(append([]string{"apps", "storefront-search"}, rest...)...) }
	all := []view{
		{"app-failed", app(), nil},
		{"app-failed-deploys", app("deploys"), nil},
		{"app-failed-rollback", app("deploys", "2", "rollback"), nil},
		{"app-failed-promote", app("promote"), nil},
		{"app-failed-promote-from", app("promote", elsewhere), nil},
		{"app-failed-deliveries", app("deliveries"), nil},
		{"app-failed-deliveries-test", app("deliveries"), func(v *visitor) { v.clicks("Send a test") }},
		{"app-failed-deliveries-details", app("deliveries"), func(v *visitor) { v.presses(v.textOf(".revisions summary")) }},
		{"app-failed-settings", app("settings"), nil},
		{"app-failed-settings-token", app("settings"), func(v *visitor) { v.clicks("Show token") }},
		{"app-failed-gate-off", app("gate"), nil},
		{"app-built", built(), nil},
		{"app-built-builds", built("builds"), nil},
		{"app-built-deliveries", built("deliveries"), nil},
		{"app-built-new-build", built("new-build"), nil},
		{"app-built-settings", built("settings"), nil},
		{"app-built-gate-on", built("gate") + "?require=on", nil},
		{"app-built-git-remove", built("settings", "git", "remove"), nil},
		{"new-app-git", s.page("new-app") + "?kind=git", nil},
		{"plan-without-quota", s.page("plans", "plan-unlimited-for-internal-partners"), nil},
		{"plan-preview", s.page("plans", "plan-gold", "edit"), func(v *visitor) {
			v.types("Quota", "1")
			v.chooses("Quota period", "Month")
			v.clicks("Preview")
		}},
		{"plan-refused", s.page("plans", "new"), func(v *visitor) {
			v.types("Name", "x")
			v.unchecked()
			v.submits("Create plan", "Rate", "100001", "Burst", "1")
		}},
		{"keys-bulk-plan", s.page("api-keys") + "?select=all", func(v *visitor) { v.clicks("Change plan") }},
		{"keys-bulk-preview", s.page("api-keys") + "?select=all", func(v *visitor) { v.clicks("Enable") }},
		{"audit-filtered", s.audit("?action=key.create"), nil},
		{"audit-none", s.audit("?actor=nobody"), nil},
		{"not-found", "/console/nowhere", nil},
		{"dialog-rollback", app("deploys"), opens("Roll back to revision 2")},
		{"dialog-gate-on", built(), opens("Require API key")},
		{"dialog-gate-off", app(), opens("Require API key")},
		{"dialog-delete", app("settings"), opens("Delete app")},
		{"dialog-plan-in-use", s.page("plans", "plan-gold"), opens("Delete plan")},
		{"dialog-rotate", s.page("api-keys", f.keys["rotated"].ID), opens("Rotate key")},
		{"dialog-revoke", s.page("api-keys", f.keys["active"].ID), opens("Revoke key")},
	}
	for what, key := range f.keys {
		all = append(all, view{"key-" + what, s.page("api-keys", key.ID), nil})
	}
	all = append(all, view{"key-active-month", s.page("api-keys", f.keys["active"].ID) + "?from=2020-01-01", nil}, view{"overview", s.page(), nil})
	slices.SortFunc(all, func(a, b view) int { return strings.Compare(a.name, b.name) })
	return append(all, view{"key-issued", s.page("api-keys", "new") + "?plan=plan-gold", func(v *visitor) {
		v.submits("Create API key", "Name", fmt.Sprintf("Issued at %s", v.window.name))
		v.copies()
	}})
}
