package console

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

//go:embed testdata/axe/axe.min.js
var axe string

// check runs axe and returns a line for each violated rule.
const check = `axe.run(document, {resultTypes: ["violations"]%s}).then((r) =>
	r.violations.map((v) => v.id + ": " + v.help + " at " + v.nodes.map((n) => n.target.join(" ") + " (" + n.failureSummary + ")").join("; ")))`

// accessible checks the page with axe. In desk windows, it also checks the contrast of the dark
// theme.
func (v *visitor) accessible() {
	v.t.Helper()
	evaluate[chromedp.Void](v, axe)
	v.violations("light", "")
	if v.window.width < desk.width {
		return
	}
	v.scheme(true)
	v.violations("dark", `, runOnly: ["color-contrast", "link-in-text-block"]`)
	v.scheme(false)
}

func (v *visitor) violations(light, options string) {
	v.t.Helper()
	for _, wrong := range evaluate[[]string](v, fmt.Sprintf(check, options), chromedp.EvalAwaitPromise) {
		v.t.Errorf("%s (%s): %s", v.path(), light, wrong)
	}
}

func (v *visitor) scheme(dark bool) {
	v.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(v.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	must(v.t, err)
}

// furnished returns a site with content on every page.
func furnished(t *testing.T) site {
	t.Helper()
	s := newSite(t)
	key := s.busy()
	s.GatedApp("hello")
	s.Rotate(key, time.Hour)
	_, _, err := s.Client.CreateToken(t.Context(), s.Project, wire.CreateToken{Name: new("nightly"), Role: new("developer")})
	must(s.T, err)
	return s
}

func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	pages := reader(t).crawl(s)
	inEach(t, []window{desk, phone}, func(v *visitor) {
		v.opens("/console/sign-in")
		v.accessible()
		v.signsIn(admin())
		for _, path := range pages {
			v.opens(path)
			v.accessible()
			v.fits()
		}
	})
}

func TestAnswersAreAccessible(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	v := browseAs(t, desk, admin())
	v.opens(s.page("plans", "new"))
	v.types("Name", "x")
	v.unchecked()
	v.submits("Create plan", "Rate", "x", "Burst", "x").sees("Enter a number such as 10 or 0.5.")
	v.accessible()

	v.opens(s.page("api-keys", "new"))
	v.chooses("Plan", "plan-gold")
	v.sets("Last valid day", "2020-01-01")
	v.clicks("Create API key")
	v.accessible()
	v.sets("Last valid day", "")
	v.clicks("Create API key")
	v.copies()
	v.accessible()
	v.reloads().sees("this form has already issued a key")
	v.accessible()

	v.opens("/console/projects/" + s.Project + "/tokens/new")
	v.submits("Create service token", "Name", "Not a name")
	v.accessible()
	v.submits("Create service token", "Name", "infrastructure").sees("Copy the token now")
	v.accessible()

	v.opens("/console/projects/" + s.Project + "/requests?id=nobodys")
	v.clicks("Find request").sees("No denial found")
	v.accessible()
	v.submits("Find request", "Request ID", "no id").sees("The request ID is invalid.")
	v.accessible()

	v.opens(s.page("plans", "plan-gold", "delete")).sees("Plan Gold in use")
	v.accessible()
	key := s.allKeys()[0]
	v.opens(s.page("api-keys", key.ID) + "?from=2020-01-01&to=2020-01-02")
	v.accessible()
	s.used(stacktest.Key{Key: key}, 1, func(int) usage.Totals { return usage.Totals{Allowed: 1} })
	v.opens(s.page("api-keys", key.ID))
	v.presses("All values as a table")
	v.accessible()
	v.opens("/console/nowhere")
	v.accessible()
	v.sees("Page not found")
}

func TestReferenceIsAccessible(t *testing.T) {
	t.Parallel()
	inEach(t, []window{desk, phone}, func(v *visitor) {
		v.opens("/api/v1/docs").sees("Before you begin")
		v.accessible()
		v.shot("reference")
		for _, path := range []string{"/keys", "/problems", "/events", "?q=rotate"} {
			v.opens("/api/v1/docs" + path)
			v.accessible()
			v.fits()
		}
		v.shot("reference-search")
	})
}
