package console

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// fullKey matches a full key (promise K4).
var fullKey = regexp.MustCompile(`sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`)

func everyWindow() []window {
	return long.Pick(usual, []window{desk, phone, phone.plain()})
}

func (s site) starter() wire.Plan {
	s.T.Helper()
	return s.Plan(wire.CreatePlan{Name: new("Starter"), Rate: new(10.0), Burst: new(int64(20))})
}

func (s site) named(p wire.Plan, name string) stacktest.Key {
	s.T.Helper()
	return s.Key(p, func(k *wire.CreateKey) { k.Name = name })
}

// expiring returns a change that sets the name of a new key and its expiry after d.
func expiring(name string, d time.Duration) func(*wire.CreateKey) {
	at := time.Now().Add(d).UTC().Format(time.RFC3339Nano)
	return func(k *wire.CreateKey) { k.Name, k.ExpiresAt = name, &at }
}

// now reads a key from the API.
func (s site) now(id string) wire.Key {
	s.T.Helper()
	k, err := s.Client.Key(s.T.Context(), s.Project, id)
	must(s.T, err)
	return k
}

// opensGate waits until a checker returns the status for a request with the key.
func (s site) opensGate(full, app string, status int) {
	s.T.Helper()
	stacktest.Replicas(s.T, world)[0].Until(s.Site, app, full, status, patience)
}

func (s site) allKeys() []wire.Key {
	s.T.Helper()
	all, err := client.Collect(s.Client.Keys(s.T.Context(), s.Project, client.KeyFilter{Environment: s.Env}))
	must(s.T, err)
	return all
}

// copies returns the full key on the page.
func (v *visitor) copies() string {
	v.t.Helper()
	full := fullKey.FindString(v.text())
	if full == "" {
		v.t.Fatalf("the page shows no full key:\n%s", v.text())
	}
	return full
}

// reloads reloads the page, which submits its form again.
func (v *visitor) reloads() *visitor {
	v.t.Helper()
	return v.leaves(func() { must(v.t, chromedp.Do(v.ctx, chromedp.Reload())) })
}

func TestFirstKey(t *testing.T) {
	t.Parallel()
	adminInEach(t, everyWindow(), func(s site, v *visitor) {
		v.opens(s.page("api-keys")).sees("No API keys")
		v.shot("keys-empty")
		v.clicks("Create a plan")
		v.submits("Create plan", "Name", "Starter", "Rate", "10", "Burst", "20").sees("Plan created.")
		v.clicks("Create API key")
		v.types("Name", "Checkout team")
		v.sees("valid through the end of this day (UTC)")
		last := time.Now().UTC().AddDate(0, 0, 30)
		v.sets("Last valid day", last.Format(time.DateOnly))
		v.shot("keys-new")
		v.clicks("Create API key").sees("It is shown only once and cannot be recovered")
		v.shot("keys-issued")
		full := v.copies()
		s.opensGate(full, "hello", http.StatusOK)
		keys := s.allKeys()
		if len(keys) != 1 || keys[0].Name != "Checkout team" || keys[0].Plan != "plan-starter" || len(keys[0].Apps) != 0 {
			v.t.Fatalf("got the keys %+v", keys)
		}
		end := time.Date(last.Year(), last.Month(), last.Day()+1, 0, 0, 0, 0, time.UTC)
		if got := keys[0].ExpiresAt; got == nil || !got.Equal(end) {
			v.t.Errorf("expiry: got %v, want %v", got, end)
		}
		v.clicks("I have copied it").sees(last.Format("2 January 2006"))
		v.shot("keys-key")
		if fullKey.MatchString(v.source()) {
			v.t.Error("the page still contains the full key")
		}
		v.clicks("API keys").sees("Checkout team")
		v.shot("keys")
	})
}

func TestKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	v.opens(s.page("api-keys", "new") + "?plan=" + plan.ID)
	v.clicks("Create API key")
	full := v.copies()
	v.presses("Copy").sees("Copied")
	v.reloads().sees("this form has already issued a key")
	v.isAt(s.page("api-keys", s.allKeys()[0].ID))
	if fullKey.MatchString(v.source()) {
		t.Error("the page shows the key again")
	}
	if n := len(s.allKeys()); n != 1 {
		t.Errorf("got %d keys, want 1", n)
	}
	s.opensGate(full, "hello", http.StatusOK)

	id := s.allKeys()[0].ID
	v.opens(s.page("api-keys", id, "rotate"))
	v.chooses("Grace period", "None")
	v.clicks("Rotate key")
	rotated := v.copies()
	v.reloads().sees("this key was rotated after the form was loaded")
	s.opensGate(rotated, "hello", http.StatusOK)
	s.opensGate(full, "hello", http.StatusUnauthorized)
}

func TestRejectedKeyForm(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk.plain())
	s.starter()
	s.App("hello")
	s.App("other")
	v.opens(s.page("api-keys", "new"))
	v.types("Name", "Billing")
	v.chooses("Plan", "plan-starter")
	v.sets("Last valid day", "2020-01-31")
	v.clicks("Create API key").sees("expires_at is in the past. Use a future time.")
	v.shot("keys-refused")
	v.sets("Last valid day", "")
	v.ticks("Only these apps:")
	v.clicks("Create API key").sees("Select at least one app, or all apps.")
	v.ticks("other")
	v.clicks("Create API key")
	full := v.copies()
	keys := s.allKeys()
	if len(keys) != 1 || keys[0].Name != "Billing" || keys[0].ExpiresAt != nil || len(keys[0].Apps) != 1 || keys[0].Apps[0] != "other" {
		t.Fatalf("got the keys %+v", keys)
	}
	s.opensGate(full, "other", http.StatusOK)
	s.opensGate(full, "hello", http.StatusUnauthorized)
}

func TestKeyLife(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		key := s.named(s.starter(), "Checkout team")
		v.opens(s.page("api-keys", key.ID))

		v.clicks("Disable key").sees("Disable Checkout team?")
		v.shot("keys-disable")
		v.clicks("Disable key").sees("Key disabled.")
		s.opensGate(key.Full, "hello", http.StatusUnauthorized)
		v.clicks("Enable key").sees("Key enabled.")
		s.opensGate(key.Full, "hello", http.StatusOK)

		v.clicks("Rotate key")
		v.shot("keys-rotate")
		v.clicks("Rotate key")
		rotated := v.copies()
		v.sees("The previous secret stays valid until")
		s.opensGate(rotated, "hello", http.StatusOK)
		s.opensGate(key.Full, "hello", http.StatusOK)
		v.clicks("I have copied it")

		v.clicks("Revoke key").sees("This cannot be undone")
		v.shot("keys-revoke")
		v.clicks("Cancel", "Revoke key", "Revoke key").sees("Key revoked. This cannot be undone.")
		v.offersNone("Edit key", "Enable key", "Rotate key")
		s.opensGate(rotated, "hello", http.StatusUnauthorized)
	})
}

func TestKeyEdit(t *testing.T) {
	t.Parallel()
	adminInEach(t, []window{phone, desk.plain()}, func(s site, v *visitor) {
		s.App("hello")
		key := s.named(s.starter(), "Checkout team")
		v.opens(s.page("api-keys", key.ID))
		v.clicks("Edit key")
		v.shot("keys-edit")
		v.clicks("Save key").sees("No changes to save.")
		v.clicks("Edit key")
		v.types("Name", "Billing team")
		v.ticks("Only these apps:")
		v.ticks("hello")
		v.sets("Last valid day", time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly))
		v.clicks("Save key").sees("Key saved.", "Expires in 1 day")
		if k := s.now(key.ID); k.Name != "Billing team" || len(k.Apps) != 1 {
			v.t.Errorf("got the key %+v", k)
		}
		v.clicks("Edit key")
		v.ticks("All apps of prod, including future ones")
		v.sets("Last valid day", "")
		v.clicks("Save key").sees("All apps")
		if k := s.now(key.ID); k.ExpiresAt != nil || len(k.Apps) != 0 || k.Name != "Billing team" {
			v.t.Errorf("got the key %+v", k)
		}
	})
}

// TestExpiryBadges checks that badges are amber in the last two weeks and red after the expiry
// (promise C2).
func TestExpiryBadges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	plan := s.starter()
	s.Key(plan, expiring("Far", 15*24*time.Hour))
	s.Key(plan, expiring("Near", 13*24*time.Hour+time.Hour))
	gone := s.Key(plan, expiring("Gone", 5*time.Second))
	s.Until("expire the key", func() bool { return s.now(gone.ID).Status == "expired" })
	for _, w := range []window{desk, phone} {
		v := browseAs(t, w, admin())
		v.opens(s.page("api-keys"))
		v.shot("keys-badges")
		for text, class := range map[string]string{"Expires in 13 days": "amber", "Expired": "bad"} {
			found := evaluate[int](v, `[...document.querySelectorAll(".badge.`+class+`")].filter((b) => b.innerText === "`+text+`").length`)
			if found != 1 {
				t.Errorf("%s: got %d badges %q, want 1", class, found, text)
			}
		}
		if n := evaluate[int](v, `document.querySelectorAll(".badge.amber, .badge.bad").length`); n != 2 {
			t.Errorf("got %d expiry badges, want 2", n)
		}
	}
}
