package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	issuer   = "https://ci.example.com"
	audience = "https://sluice.example.com/api/v1/webhook/shop-prod/quiet"
)

// vouching is a fake of the issuers. The token "org/repo main 7" is number 7 of that repository
// and branch.
type vouching struct{ down bool }

func (v *vouching) Verify(_ context.Context, token string) (app.Pipeline, error) {
	if v.down {
		return app.Pipeline{}, problem.FromCode(problem.Unavailable).WithCause(errors.New("the issuer does not respond"))
	}
	parts := strings.Split(token, " ")
	if len(parts) != 3 {
		return app.Pipeline{}, problem.FromCode(problem.InvalidToken).WithCause(errors.New("no token"))
	}
	return app.Pipeline{
		Issuer: issuer, Audience: []string{audience}, TokenID: parts[2], Expires: time.Date(2026, 3, 14, 12, 7, 0, 0, time.UTC),
		Claims: map[string]string{"repository": parts[0], "ref": "refs/heads/" + parts[1], "workflow": "deploy", "sub": "repo:" + parts[0]},
	}, nil
}

// trusting returns a world whose app quiet trusts org/repo on main.
func trusting(t *testing.T) (*world, *vouching) {
	t.Helper()
	w, v := newWorld(t), &vouching{}
	w.service.issuers = v
	w.trust(quiet)
	return w, v
}

func (w *world) trust(address string) {
	w.Helper()
	check.OK(w, w.store.AddTrust(w.Context(), refOf(address), app.Trust{
		ID: "trust-aaaaaaaaaa", Provider: app.GitHub, Issuer: issuer, Audience: audience, Claims: map[string]string{"repository": "org/repo", "ref": "refs/heads/main"},
	}))
}

func (w *world) keyless(address, token, body string) *call {
	return w.call(address, body).with("Authorization", "Bearer "+token)
}

const deployBody = `{"image":"` + image2 + `"}`

func rolling(revision int64) wire.WebhookStatus {
	return wire.WebhookStatus{Status: "rolling_out", Revision: wire.Ordinal(revision), Image: image2}
}

func TestKeyless(t *testing.T) {
	t.Parallel()
	w, _ := trusting(t)
	w.keyless(quiet, "org/repo main 1", deployBody).is(http.StatusAccepted, rolling(2))
	revisions, _ := w.added(quiet)
	if got := revisions[0].Actor; got != "github: org/repo@main by workflow deploy" {
		t.Errorf("actor: got %q", got)
	}
	w.keyless(quiet+"/deployments/2", "org/repo main 2", "").by(http.MethodGet).is(http.StatusOK, wire.WebhookStatus{
		Status: "rolling_out", Revision: 2, Image: image2, StatusURL: "https://sluice.example.com/api/v1/webhook/shop-prod/quiet/deployments/2",
	})
	if !strings.Contains(w.log.String(), "org/repo@main") || strings.Contains(w.log.String(), "org/repo main") {
		t.Error("the log lacks the pipeline or contains its token")
	}
}

func TestKeylessRefusals(t *testing.T) {
	t.Parallel()
	w, _ := trusting(t)
	before := w.states()
	want := w.call(quiet, deployBody).with(hook.TokenHeader, "x").send()
	for name, c := range map[string]*call{
		"no proof":             w.call(quiet, deployBody),
		"no token":             w.keyless(quiet, "hello", deployBody),
		"another repository":   w.keyless(quiet, "org/other main 1", deployBody),
		"another branch":       w.keyless(quiet, "org/repo dev 1", deployBody),
		"an app without trust": w.keyless(hello, "org/repo main 1", deployBody),
		"no such app":          w.keyless("shop-prod/none", "org/repo main 1", deployBody),
		"no name of an app":    w.keyless("Shop/hello", "org/repo main 1", deployBody),
		"another scheme":       w.call(quiet, deployBody).with("Authorization", "Basic b3JnL3JlcG8gbWFpbiAx"),
		"twice":                w.keyless(quiet, "org/repo main 1", deployBody).adding("Authorization", "Bearer org/repo main 1"),
		"with a wrong token":   w.keyless(quiet, "org/repo main 1", deployBody).with(hook.TokenHeader, "x"),
		"with a wrong digest":  w.keyless(quiet, "org/repo main 1", deployBody).with(hook.SignatureHeader, "sha256="),
		"a status, no trust":   w.keyless(hello+"/deployments/1", "org/repo main 1", ""),
	} {
		got := c.send()
		if strings.HasPrefix(name, "a status") {
			got = c.by(http.MethodGet)
		}
		if got.Status != http.StatusUnauthorized || string(got.Body) != string(want.Body) {
			t.Errorf("%s: %d %s", name, got.Status, string(got.Body))
		}
	}
	w.untouched(before)
}

// Only the same call with the same delivery ID gets the first response again.
func TestKeylessReplay(t *testing.T) {
	t.Parallel()
	w, _ := trusting(t)
	w.trust(hello)
	first := w.keyless(quiet, "org/repo main 1", deployBody).with("Idempotency-Key", "run-1").send()
	first.is(http.StatusAccepted, rolling(2))
	if again := w.keyless(quiet, "org/repo main 1", deployBody).with("Idempotency-Key", "run-1").send(); string(again.Body) != string(first.Body) || again.Header.Get(api.Replayed) != "true" {
		t.Errorf("the same call: %d %s", again.Status, string(again.Body))
	}
	for name, c := range map[string]*call{
		"without its name":       w.keyless(quiet, "org/repo main 1", deployBody),
		"under another":          w.keyless(quiet, "org/repo main 1", deployBody).with("Idempotency-Key", "run-2"),
		"with another body":      w.keyless(quiet, "org/repo main 1", `{"image":"`+image2+`x"}`),
		"to another app":         w.keyless(hello, "org/repo main 1", deployBody),
		"as an event":            w.keyless(quiet, "org/repo main 1", `{}`).with("X-GitHub-Event", "ping"),
		"as another name's push": w.keyless(quiet, "org/repo main 1", deployBody).with("X-GitHub-Delivery", "run-3"),
	} {
		if got := c.send(); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, got.Status, string(got.Body))
		}
	}
	w.clock.Advance(2 * time.Minute)
	w.keyless(quiet, "org/repo main 1", deployBody).refused(http.StatusUnauthorized, problem.InvalidToken)

	var together sync.WaitGroup
	answers := make(chan int, 8)
	for range 8 {
		together.Go(func() { answers <- w.keyless(quiet, "org/repo main 2", deployBody).send().Status })
	}
	together.Wait()
	close(answers)
	taken := 0
	for status := range answers {
		if status == http.StatusAccepted {
			taken++
		}
	}
	if revisions, _ := w.added(quiet); taken != 1 || len(revisions) != 3 {
		t.Errorf("concurrent calls: %d accepted, %d revisions", taken, len(revisions))
	}
	// A rejected call does not use up its token.
	w.keyless(quiet, "org/repo main 3", `{}`).refused(http.StatusUnprocessableEntity, problem.ImageRequired)
	w.keyless(quiet, "org/repo main 3", deployBody).is(http.StatusAccepted, rolling(4))
}

func TestTrustIsTakenAway(t *testing.T) {
	t.Parallel()
	w, _ := trusting(t)
	w.keyless(quiet, "org/repo main 1", deployBody).is(http.StatusAccepted, rolling(2))
	check.OK(w, w.store.RemoveTrust(t.Context(), refOf(quiet), "trust-aaaaaaaaaa"))
	w.keyless(quiet, "org/repo main 2", deployBody).refused(http.StatusUnauthorized, problem.InvalidToken)
	w.keyless(quiet+"/deployments/2", "org/repo main 3", "").by(http.MethodGet).Refused(http.StatusUnauthorized, problem.InvalidToken)
}

func TestKeylessTrouble(t *testing.T) {
	t.Parallel()
	w, v := trusting(t)
	before := w.states()
	v.down = true
	w.keyless(quiet, "org/repo main 1", deployBody).refused(http.StatusServiceUnavailable, problem.Unavailable)
	w.untouched(before)
	w.ci(hello, deployBody).is(http.StatusAccepted, rolling(2))
	v.down = false
	w.keyless(quiet, "org/repo main 1", deployBody).is(http.StatusAccepted, rolling(2))
}

// Store reads for untrusted pipelines are limited by repository.
func TestKeylessLimits(t *testing.T) {
	t.Parallel()
	w, _ := trusting(t)
	limited := 0
	for range 100 {
		if w.keyless(quiet, "unknown/repo main 1", deployBody).sentFrom("192.0.2.7").send().Status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited != 40 {
		t.Errorf("calls with 429: got %d of 100, want 40", limited)
	}
	w.keyless(quiet, "org/repo main 1", deployBody).sentFrom("192.0.2.7").is(http.StatusAccepted, rolling(2))
}
