package console

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
)

const (
	hostileKey  = `<script>alert(1)</script>{{.}}<img src=x onerror=alert(2)>`
	hostilePlan = `"><svg onload=alert(3)>' onfocus='alert(4)' {{.CSRF}}`
)

// injected counts elements that the console never creates: other scripts and images, and inline
// event handlers.
const injected = `[...document.querySelectorAll("*")].filter((e) =>
	e.matches("script:not([src^='/console/assets/']), img:not([src^='/console/assets/'])") ||
	[...e.attributes].some((a) => a.name.startsWith("on"))).length`

// TestHostileNames checks that names appear as text on every page. A JavaScript dialog fails any
// test (see onEvent).
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	plan := s.Plan(wire.CreatePlan{Name: new(hostilePlan), Rate: new(1.0), Burst: new(int64(1))})
	key := s.named(plan, hostileKey)
	s.App("hello")
	v := browse(t, desk)
	v.opens("/console/sign-in")
	v.signsInHere(person{hostileKey, "a wrong password"}).sees("The username or the password is wrong.")
	v.obeysNothing()
	v.signsIn(admin())
	shown := map[string]int{}
	pages := reader(t)
	for _, path := range pages.crawl(s) {
		if !strings.Contains(pages.read(path), "alert(") {
			continue // the page shows neither name
		}
		v.opens(path)
		v.fits()
		v.obeysNothing()
		for _, text := range []string{hostileKey, hostilePlan} {
			if strings.Contains(v.text(), text) {
				shown[text]++
			}
		}
	}
	for text, pages := range map[string]int{hostileKey: 7, hostilePlan: 4} {
		if shown[text] < pages {
			t.Errorf("%q: got %d pages, want at least %d", text, shown[text], pages)
		}
	}
	for _, path := range []string{s.page("api-keys", key.ID), s.page("api-keys"), s.page("api-keys", key.ID, "revoke"), s.audit("")} {
		v.opens(path).sees(hostileKey)
	}
	v.shot("hostile-audit")
	for _, path := range []string{s.page("plans"), s.page("plans", plan.ID), s.page("plans", plan.ID, "delete")} {
		v.opens(path).sees(hostilePlan)
	}

	v.opens("/console/new-user")
	v.types("Username", hostileKey, "Password", "a long enough password")
	v.chooses("Kind", "User")
	v.clicks("Create user").sees("A username must have 1 to 40 characters")
	if got := ask[string](v, "typed", "Username"); got != hostileKey {
		t.Errorf("username in the form: got %q", got)
	}
	v.obeysNothing()
}

// obeysNothing checks that the page has no injected elements.
func (v *visitor) obeysNothing() {
	v.t.Helper()
	if n := evaluate[int](v, injected); n != 0 {
		v.t.Errorf("%s: got %d injected elements, want none", v.path(), n)
	}
}
