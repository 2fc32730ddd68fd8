package checkers

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func key(t *testing.T, secret string) ProofKey {
	t.Helper()
	k, err := DeriveProofKey([]byte(secret))
	check.OK(t, err)
	return k
}

func TestProof(t *testing.T) {
	t.Parallel()
	k, nonce := key(t, "a private key"), NewNonce()
	proof := k.SignProof(nonce, "shop-prod/hello")
	if !k.VerifyProof(proof, nonce, "shop-prod/hello") {
		t.Error("valid proof: got false, want true")
	}
	for name, proves := range map[string]bool{
		"another nonce": k.VerifyProof(proof, NewNonce(), "shop-prod/hello"),
		"another app":   k.VerifyProof(proof, nonce, "shop-prod/other"),
		"a generation":  k.VerifyProof(proof, nonce, "shop-prod/hello/g1"),
		"another key":   key(t, "another").VerifyProof(proof, nonce, "shop-prod/hello"),
		"cut":           k.VerifyProof(proof[:len(proof)-1], nonce, "shop-prod/hello"),
		"none":          k.VerifyProof("", nonce, "shop-prod/hello"),
	} {
		if proves {
			t.Errorf("%s: got true, want false", name)
		}
	}
}

// TestVector checks that the format of proofs is stable across releases.
func TestVector(t *testing.T) {
	t.Parallel()
	got := key(t, "a private key").SignProof("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "shop-prod/hello")
	if want := "a39ff440f7edf5e36950fcb2169f354a5fd36e4a6e7af3b33010fb8b19d00f82"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNonce(t *testing.T) {
	t.Parallel()
	if n := NewNonce(); !ValidNonce(n) || n == NewNonce() {
		t.Errorf("nonce: got %q, want a valid, random one", n)
	}
	good := strings.Repeat("A", nonceLength)
	for _, bad := range []string{"", good[1:], good + "A", good[1:] + "a", good[1:] + "1", good[1:] + "\n", good[1:] + "é"} {
		if ValidNonce(bad) {
			t.Errorf("ValidNonce(%q): got true, want false", bad)
		}
	}
}

func TestValidGeneration(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"h2x0k": true, "0": true, "abcdefghijklm": true, "": false, "abcdefghijklmn": false, ".well-known": false, "A": false, "a/b": false} {
		if got := ValidGeneration(s); got != want {
			t.Errorf("ValidGeneration(%q): got %t, want %t", s, got, want)
		}
	}
}
