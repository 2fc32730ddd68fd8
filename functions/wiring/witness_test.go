package wiring

import (
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/gateproof"
)

// TestWitness: a proof holds under the key that checkers are to serve with, and under the
// one before, and under no other.
func TestWitness(t *testing.T) {
	t.Parallel()
	ref, nonce := app.Ref{Namespace: "shop-prod", Name: "hello"}, gateproof.NewNonce()
	proof := func(private string) string {
		key, err := gateproof.KeyOf([]byte(private))
		if err != nil {
			t.Fatal(err)
		}
		return key.Prove(nonce, "shop-prod/hello")
	}
	var w witness
	if err := w.learn(nil); err != nil {
		t.Fatal(err)
	}
	if w.proven(ref, nonce, proof("first")) || w.proven(ref, nonce, (gateproof.Key{}).Prove(nonce, "shop-prod/hello")) {
		t.Error("something is proven before any key is known")
	}
	for _, step := range []struct {
		learn               string
		first, second, last bool
	}{{"first", true, false, false}, {"first", true, false, false}, {"second", true, true, false}, {"third", false, true, true}} {
		if err := w.learn([]byte(step.learn)); err != nil {
			t.Fatal(err)
		}
		for private, want := range map[string]bool{"first": step.first, "second": step.second, "third": step.last} {
			if got := w.proven(ref, nonce, proof(private)); got != want {
				t.Errorf("after %s: proven by %s: %v", step.learn, private, got)
			}
		}
		if w.proven(app.Ref{Namespace: "shop-prod", Name: "other"}, nonce, proof(step.learn)) || w.proven(ref, gateproof.NewNonce(), proof(step.learn)) {
			t.Errorf("after %s: another app's, or an older, proof holds", step.learn)
		}
	}
}
