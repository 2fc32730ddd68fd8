package proxies

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestContract uses both protocols.
const protocol = "HTTP/2.0"

// TestFaults checks that, behind every proxy, the gate denies with its own 503 while it cannot
// decide.
func TestFaults(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	k := s.AnyKey()
	var all []*gated
	for _, p := range proxies() {
		all = append(all, p.start(t, s, "hello"))
	}
	each := func(t *testing.T, check func(*testing.T, *gated)) {
		t.Helper()
		for _, g := range all {
			t.Run(g.proxy.name, func(t *testing.T) { check(t, g) })
		}
	}
	serves := func(t *testing.T, g *gated) {
		t.Helper()
		g.Until("serve", func() bool { return g.send(t, protocol, keyed(k)).Status == http.StatusOK })
	}
	unavailable := func(t *testing.T, g *gated) {
		t.Helper()
		var a stacktest.Answer
		g.Until("deny", func() bool {
			a = g.send(t, protocol, keyed(k))
			return a.Code() == "gate_unavailable"
		})
		denied(t, a, http.StatusServiceUnavailable, "gate_unavailable", "10")
		if a := g.send(t, protocol, preflight()); a.Status != http.StatusOK { // otherwise pages could not read the denial
			t.Errorf("preflight: got %d %s, want %d", a.Status, a.Body, http.StatusOK)
		}
	}
	each(t, serves)
	t.Run("store stopped", func(t *testing.T) {
		signal(t, syscall.SIGSTOP)
		each(t, unavailable)
		signal(t, syscall.SIGCONT)
		each(t, serves)
	})
	t.Run("one checker killed", func(t *testing.T) {
		kill(t, "checker-0")
		each(t, serves)
		restart(t, "checker-0")
		each(t, serves)
	})
	t.Run("both checkers killed", func(t *testing.T) {
		kill(t, "checker-0", "checker-1")
		each(t, func(t *testing.T, g *gated) {
			t.Helper()
			if a := g.send(t, protocol, keyed(k)); a.Status < http.StatusInternalServerError {
				t.Errorf("immediately: got %d, want 5xx", a.Status)
			}
			unavailable(t, g)
		})
		t.Run("and the stand-in", func(t *testing.T) {
			kill(t, "standin")
			each(t, func(t *testing.T, g *gated) {
				t.Helper()
				if g.proxy.alone {
					unavailable(t, g)
					return
				}
				g.Until("return its own 500", func() bool {
					a := g.send(t, protocol, keyed(k))
					if a.Status < http.StatusInternalServerError {
						t.Fatalf("got %d, want 5xx", a.Status)
					}
					return a.Status == http.StatusInternalServerError && a.Body == ""
				})
			})
			restart(t, "standin")
		})
		restart(t, "checker-0", "checker-1")
		begin := time.Now()
		each(t, serves)
		t.Logf("all proxies serve %v after the restart", time.Since(begin).Round(time.Millisecond))
	})
}

// TestOtherAuthority checks that a proxy denies requests if the checkers' certificate is not from
// its CA.
func TestOtherAuthority(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	other := t.TempDir()
	certify(t, other)
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			status := http.StatusInternalServerError // Traefik's own
			if p.alone {
				status = http.StatusServiceUnavailable
			}
			g := p.trusting(t, s, "hello", filepath.Join(other, "site.crt"), status)
			a := g.send(t, protocol, keyed(k))
			if a.Status != status {
				t.Errorf("got %d %s, want %d", a.Status, a.Body, status)
			}
			if p.alone {
				denied(t, a, http.StatusServiceUnavailable, "gate_unavailable", "10")
			}
		})
	}
	u, err := s.Client.Usage(t.Context(), s.Project, k.ID, "", "")
	check.OK(t, err)
	if most := uint64(len(world.Info().Checkers)); u.Totals.Allowed > most { // requests of Opens
		t.Errorf("counted requests: got %d, want at most %d", u.Totals.Allowed, most)
	}
}

func signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	check.OK(t, world.Signal("firestore", s))
}

func kill(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		check.OK(t, world.Kill(name))
	}
}

func restart(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		check.OK(t, world.Restart(t.Context(), name))
	}
}
