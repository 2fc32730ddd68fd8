package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestFirstSteps(t *testing.T) {
	t.Parallel()
	adminInEach(t, everyWindow(), func(s site, v *visitor) {
		v.opens(s.page()).sees("First steps")
		v.shot("overview-empty")
		v.clicks("Create app")
		v.submits("Create app", "Name", "hello", "Image", stacktest.Image)
		v.clicks("Overview") // of the environment
		v.clicks("Show app", "Require API key", "Turn on").sees("Require API key is on.")
		v.clicks("Overview", "Create plan")
		v.submits("Create plan", "Name", "Starter", "Rate", "10", "Burst", "20")
		v.clicks("Overview", "Create API key")
		v.chooses("Plan", "plan-starter")
		v.clicks("Create API key")
		full := v.copies()
		v.clicks("I have copied it", "Overview").sees(`curl -i -H "X-API-Key: $API_KEY"`)
		v.shot("overview-curl")
		s.opensGate(full, "hello", http.StatusOK)
		v.until("finish the steps", func() bool {
			if v.window.noScript {
				v.opens(s.page())
			}
			return !strings.Contains(v.text(), "First steps")
		})
		v.opens(s.page()).sees("1 allowed")
		v.shot("overview-first")
	})
}

func TestOverview(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.busy()
	soon := s.Key(s.starter(), expiring("Old partner", 3*24*time.Hour))
	s.used(soon, 3, func(int) usage.Totals { return usage.Totals{Allowed: 10, RateDenied: 40} })
	s.GatedApp("hello")
	for _, w := range long.Pick(usual, []window{desk, phone, phone.plain(), desk.night()}) {
		v := browseAs(t, w, admin())
		v.opens(s.page())
		v.sees("Checkout team 90% of quota used", "Old partner Expires in 2 days", "Latest deployments hello revision 1", "Active 2")
		if strings.Contains(v.text(), "First steps") {
			t.Error("an environment in use shows the first steps")
		}
		if !w.noScript {
			v.accessible()
		}
		v.shot("overview")
	}
	v.opens(s.page())
	v.clicks("Checkout team")
	v.isAt(s.page("api-keys", key.ID))
}

func TestKeySearch(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		plan := s.starter()
		wanted, other := s.named(plan, "Checkout team"), s.named(plan, "Billing")
		v.opens(s.page("api-keys"))
		v.submits("Search", "Name, prefix or full key", "checkOUT").sees("Checkout team")
		if strings.Contains(v.text(), "Billing") {
			v.t.Error("the list contains the other key")
		}
		v.shot("keys-found")
		v.clicks("Show all").sees("Billing")
		v.submits("Search", "Name, prefix or full key", wanted.Full).sees("Key found. You entered its current secret.")
		if got := v.path(); got != s.page("api-keys", wanted.ID) || strings.Contains(v.source(), wanted.Full) {
			v.t.Errorf("got the page %s", got)
		}
		s.Revoke(wanted)
		v.opens(s.page("api-keys"))
		v.submits("Search", "Name, prefix or full key", "  "+wanted.Full+" ")
		v.sees("the gate rejects the key", "Revoked just now by admin")
		v.shot("keys-revoked")

		v.opens(s.page("api-keys"))
		v.submits("Search", "Name, prefix or full key", other.Full[:len(other.Full)-1]+"?").sees("This is not a full key")
		if strings.Contains(v.source(), other.Full[:30]) {
			v.t.Error("the page contains the entered text")
		}
		foreign := newSite(v.t)
		v.opens(foreign.page("api-keys"))
		foreign.named(foreign.starter(), "Theirs")
		v.opens(foreign.page("api-keys"))
		v.submits("Search", "Name, prefix or full key", other.Full).sees("No key of this project has that prefix.")
		v.shot("keys-not-found")
	})
}

func TestUsedUpKey(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.busy()
	s.used(key, 1, func(int) usage.Totals { return usage.Totals{Allowed: 1000, QuotaDenied: 7} })
	v.opens(s.page("api-keys")).sees("Quota used up")
	if rows := v.textOf(".keys"); strings.Contains(rows, "Active") {
		t.Errorf("the list shows the key as active: %s", rows)
	}
}
