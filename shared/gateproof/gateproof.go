// Package gateproof tells the gate from whatever answers like it. A denial is no secret,
// so an app, or a proxy before it, can copy it byte for byte; whoever asks whether a gate
// is in place must not be taken in by that.
//
// The asker sends a fresh nonce with its request ([NonceHeader]). A checker that denies
// the request answers with a proof beside the denial ([ProofHeader]): an HMAC over the
// nonce and the app that it was asked about, under a key that only checkers and wiring
// have. It is derived from the private key of the checkers' certificate, so there is
// nothing else to make, mount and renew, whoever makes that certificate; and a derived
// key tells nothing about the one that it comes from.
//
// A proof says that a checker was asked about this app just now. It does not say by whom:
// something that can reach the checkers itself could pass the question on. Network
// policies keep apps away from them (infra/network.yaml).
//
// Where the question's address names a generation of the app's route, the proof is for
// that generation. So the answer of a route that the ingress is about to replace proves
// nothing of the route that replaces it.
package gateproof

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
)

// The headers, as net/http spells them.
const (
	NonceHeader = "X-Sluice-Probe" // of the request
	ProofHeader = "X-Sluice-Proof" // of the denial
)

const (
	purpose     = "sluice gate proof 1"
	nonceLength = 26 // of rand.Text
)

// Key is what proofs are made with.
type Key [sha256.Size]byte

// LogValue keeps a key out of logs.
func (Key) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// KeyOf derives the key from what is in the certificate's tls.key.
func KeyOf(privateKey []byte) (Key, error) {
	if len(privateKey) == 0 {
		return Key{}, errors.New("derive the key of proofs: there is no private key")
	}
	derived, err := hkdf.Key(sha256.New, privateKey, nil, purpose, sha256.Size)
	if err != nil {
		return Key{}, fmt.Errorf("derive the key of proofs: %w", err)
	}
	return Key(derived), nil
}

// NewNonce makes a nonce, e.g. "4QX6BJV3PHGDH5R6ZCO7SMB5NE".
func NewNonce() string { return rand.Text() }

// ValidNonce tells whether s can be a nonce: nothing else is worth an HMAC.
func ValidNonce(s string) bool {
	if len(s) != nonceLength {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// maxGeneration is the largest length of a generation: 64 bits in base 36.
const maxGeneration = 13

// ValidGeneration reports whether s can be the generation of a route: 1 to 13 of 0-9a-z.
func ValidGeneration(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxGeneration
}

// Prove returns the proof for a nonce that came with a question about subject, which is
// "{namespace}/{app}", or "{namespace}/{app}/{generation}" where the question names the
// generation of the route.
func (k Key) Prove(nonce, subject string) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(nonce + "\n" + subject)) // a nonce has one length, and no line break
	return hex.EncodeToString(mac.Sum(nil))
}

// Proves reports whether proof is the one for nonce and subject, in constant time.
func (k Key) Proves(proof, nonce, subject string) bool {
	return hmac.Equal([]byte(proof), []byte(k.Prove(nonce, subject)))
}
