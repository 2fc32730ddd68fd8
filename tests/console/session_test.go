package console

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/long"
)

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	inEach(t, long.Pick(usual, []window{desk, phone, desk.plain()}), func(v *visitor) {
		s := newSite(v.t)
		v.opens("/").sees("Sign in")
		v.opens(s.page("apps")).sees("Sign in")
		v.shot("sign-in")
		v.signsInHere(person{admin().username, "a wrong password"}).sees("The username or the password is wrong.")
		v.signsInHere(admin()).sees("No apps") // the page requested before the sign-in
		v.isAt(s.page("apps"))
		v.presses(who(admin()))
		v.clicks("Sign out").sees("You are signed out.")
		v.opens(s.page("apps")).sees("Sign in")
	})
}

// who returns the text of a person's menu.
func who(p person) string { return strings.ToUpper(p.username[:1]) + " " + p.username }

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	v := browse(t, desk)
	v.signsInByForm(admin())
	r, err := chromedp.Call(v.ctx, network.GetCookies, network.GetCookiesParams{})
	must(v.t, err)
	found := false
	for _, c := range r.Cookies {
		if c.Name != identity.CookieName {
			continue
		}
		found = true
		if !c.HTTPOnly || !c.Secure || c.SameSite != network.CookieSameSiteLax {
			t.Errorf("got the cookie %+v", c)
		}
		if strings.Contains(v.source(), c.Value) {
			t.Error("the page contains the session token")
		}
	}
	if !found {
		t.Error("no session cookie found")
	}
}

func TestEndedSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.member("developer")
	v := browse(t, desk)
	v.signsInByForm(p)
	v.opens(s.page("new-app"))
	v.types("Name", "hello", "Image", "registry.example/echo:v1")
	must(t, s.Client.ResetPassword(t.Context(), p.username, "another long password"))
	v.clicks("Create app").sees("Your session has ended.")
	v.signsInHere(person{p.username, "another long password"}).sees("New app")
	v.isAt(s.page("new-app"))
	s.OnlyHas(0, 0, 0)
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.member("viewer")
	v := browse(t, desk.plain())
	v.signsInByForm(p)
	v.presses(who(p))
	v.clicks("Change password")
	v.submits("Change password", "Current password", "not the current one", "New password", "another long password")
	v.sees("That is not your current password.")
	v.submits("Change password", "Current password", p.password, "New password", "short")
	v.sees("A password must have 12 to 256 characters.")
	v.submits("Change password", "Current password", p.password, "New password", "another long password")
	v.sees("Password changed.")
	v.signsInHere(person{p.username, "another long password"}).sees(s.Project)
}
