package wiring

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/tests/check"
)

func TestReproveSchedule(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ref := app.Ref{Namespace: "n-s", Name: "a"}
	p := newReproveSchedule(time.Hour, func(below time.Duration) time.Duration { return below / 2 })
	for _, at := range []struct {
		after time.Duration
		due   bool
	}{{0, false}, {29 * time.Minute, false}, {31 * time.Minute, true}, {40 * time.Minute, true}} {
		if got := p.due(ref, now.Add(at.after)); got != at.due {
			t.Errorf("due after %v: got %v", at.after, got)
		}
	}
	p.proven(ref, now)
	if p.due(ref, now.Add(59*time.Minute)) || !p.due(ref, now.Add(61*time.Minute)) {
		t.Error("not due an hour after the proof")
	}
	p.keepOnly(map[app.Ref]bool{})
	if len(p.next) != 0 {
		t.Error("the schedule contains a deleted app")
	}
}

func TestProofKeys(t *testing.T) {
	t.Parallel()
	const hello = "shop-prod/hello"
	nonce := checkers.NewNonce()
	proof := func(private string) string {
		key, err := checkers.DeriveProofKey([]byte(private))
		check.OK(t, err)
		return key.SignProof(nonce, hello)
	}
	var w proofKeys
	check.OK(t, w.learn(nil))
	if w.proven(hello, nonce, proof("first")) || w.proven(hello, nonce, (checkers.ProofKey{}).SignProof(nonce, hello)) {
		t.Error("proven before a key is known")
	}
	for _, step := range []struct {
		learn               string
		first, second, last bool
	}{{"first", true, false, false}, {"first", true, false, false}, {"second", true, true, false}, {"third", false, true, true}} {
		check.OK(t, w.learn([]byte(step.learn)))
		for private, want := range map[string]bool{"first": step.first, "second": step.second, "third": step.last} {
			if got := w.proven(hello, nonce, proof(private)); got != want {
				t.Errorf("after %s: proven by %s: got %v", step.learn, private, got)
			}
		}
		if w.proven("shop-prod/other", nonce, proof(step.learn)) || w.proven(hello, checkers.NewNonce(), proof(step.learn)) {
			t.Errorf("after %s: a proof of another app or nonce is valid", step.learn)
		}
	}
}

func TestProven(t *testing.T) {
	t.Parallel()
	var key checkers.ProofKey
	key[0] = 1
	in := ingress{proofKeys: &proofKeys{current: key, known: 1}}
	hello, nonce := app.App{Name: "hello", Namespace: "shop-prod"}, checkers.NewNonce()
	for _, tt := range []struct {
		name       string
		subject    string
		generation string
		any        bool
		want       kind
	}{
		{name: "same generation", subject: "shop-prod/hello/g2", generation: "g2", want: refused},
		{name: "another generation", subject: "shop-prod/hello/g1", generation: "g2", want: copied},
		{name: "another generation, with earlier checkers", subject: "shop-prod/hello/g1", generation: "g2", any: true, want: copied},
		{name: "no generation", subject: "shop-prod/hello", generation: "g2", want: stale},
		{name: "no generation, from an earlier checker", subject: "shop-prod/hello", generation: "g2", any: true, want: refused},
		{name: "route without a generation", subject: "shop-prod/hello", want: refused},
		{name: "another app", subject: "shop-prod/other/g2", generation: "g2", any: true, want: copied},
	} {
		q := probeRequest{App: hello, generation: tt.generation, anyGeneration: tt.any}
		if got := in.proven(q, nonce, key.SignProof(nonce, tt.subject)); got != tt.want {
			t.Errorf("%s: got %s", tt.name, got)
		}
	}
}
