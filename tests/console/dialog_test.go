package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func (v *visitor) strikes(keys string) {
	v.t.Helper()
	must(v.t, chromedp.Do(v.ctx, chromedp.KeyEvent(keys)))
}

// reaches presses Tab until an element with the text has the focus.
func (v *visitor) reaches(text string) {
	v.t.Helper()
	for range 100 {
		if v.focused() == text {
			return
		}
		v.strikes(kb.Tab)
	}
	v.t.Fatalf("cannot reach %q with the keyboard on %s", text, v.path())
}

func (v *visitor) focused() string { return ask[string](v, "focused") }

// asked waits for a dialog and returns its text.
func (v *visitor) asked() (question string) {
	v.t.Helper()
	v.until("open a dialog", func() bool {
		question = ask[string](v, "dialog")
		return question != ""
	})
	return question
}

func TestConfirmationDialog(t *testing.T) {
	t.Parallel()
	adminInEach(t, []window{desk, phone}, func(s site, v *visitor) {
		key := s.named(s.starter(), "Checkout team")
		v.opens(s.page("api-keys", key.ID))
		before := v.path()
		for _, leave := range []func(){
			func() { v.strikes(kb.Escape) },
			func() { v.presses("Cancel") },
			func() { v.strikes(kb.Enter) }, // on Cancel
		} {
			v.presses("Revoke key")
			if asked := v.asked(); !strings.Contains(asked, "Revoke Checkout team?") {
				v.t.Errorf("got the dialog %q", asked)
			}
			v.accessible()
			if got := v.focused(); got != "Cancel" {
				v.t.Errorf("focus: got %q, want Cancel", got)
			}
			leave()
			v.until("close the dialog", func() bool { return ask[string](v, "dialog") == "" })
			if got := v.focused(); got != "Revoke key" || v.path() != before {
				v.t.Errorf("focus: got %q on %s", got, v.path())
			}
		}
		if got := s.now(key.ID).Status; got != "active" {
			v.t.Errorf("status: got %s, want active", got)
		}
		v.clicks("Revoke key", "Revoke key").sees("Key revoked. This cannot be undone.")
	})
}

func TestStaleConfirmation(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	first, second := s.named(plan, "First"), s.named(plan, "Second")
	v.opens(s.page("api-keys", first.ID))
	s.Revoke(first)
	v.clicks("Revoke key").sees("No changes were made: this key is revoked")
	v.opens(s.page("api-keys", second.ID))
	v.clicks("Disable key")
	v.asked()
	s.Disable(second)
	v.clicks("Disable key").sees("No changes were made: another user changed this key in the meantime. Its status is now disabled.")
}

func TestByKeyboard(t *testing.T) {
	t.Parallel()
	adminInEach(t, []window{desk, desk.plain()}, func(s site, v *visitor) {
		s.App("hello")
		s.deploy("hello", "registry.example/echo:v2")
		s.Settled("hello", 2, "live")
		enters := func(text string) {
			v.t.Helper()
			v.reaches(text)
			v.leaves(func() { v.strikes(kb.Enter) })
		}
		v.opens(s.page("apps", "hello", "deploys"))
		if !v.window.noScript {
			enters("Roll back to revision 1")
			v.strikes(kb.Escape)
			v.until("close the dialog", func() bool { return ask[string](v, "dialog") == "" })
		}
		enters("Roll back to revision 1")
		v.sees("Roll hello back to revision 1?")
		enters("Roll back to revision 1")
		v.sees("Rollback saved. The rollout is in progress.")
		s.Runs("hello", "registry.example/echo:v1")

		enters("Settings")
		enters("Delete app")
		if v.window.noScript {
			v.reaches("f-name")
		}
		v.strikes("hello" + kb.Enter)
		v.sees("App deleted.")
		s.Call("hello").Within(patience).Gets(http.StatusNotFound)
	})
}
