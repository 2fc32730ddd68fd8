package checkers

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

// The headers of a probe, in canonical form.
const (
	NonceHeader = "X-Sluice-Probe" // of the request
	ProofHeader = "X-Sluice-Proof" // of the denial
)

const (
	purpose     = "sluice gate proof 1"
	nonceLength = 26 // of rand.Text
)

// ProofKey signs proofs.
type ProofKey [sha256.Size]byte

// LogValue keeps a key out of logs.
func (ProofKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// DeriveProofKey derives the key from the PEM in the certificate's tls.key.
func DeriveProofKey(privateKey []byte) (ProofKey, error) {
	if len(privateKey) == 0 {
		return ProofKey{}, errors.New("derive the key of proofs: the private key is empty")
	}
	derived, err := hkdf.Key(sha256.New, privateKey, nil, purpose, sha256.Size)
	if err != nil {
		return ProofKey{}, fmt.Errorf("derive the key of proofs: %w", err)
	}
	return ProofKey(derived), nil
}

// NewNonce returns a nonce, e.g. "4QX6BJV3PHGDH5R6ZCO7SMB5NE".
func NewNonce() string { return rand.Text() }

// ValidNonce reports whether s has the form of a nonce.
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

// SignProof returns the proof for a nonce and a subject. The subject is "{namespace}/{app}",
// or "{namespace}/{app}/{generation}" where the probe names the generation of the route.
func (k ProofKey) SignProof(nonce, subject string) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(nonce + "\n" + subject)) // unambiguous: a nonce has a fixed length and no line break
	return hex.EncodeToString(mac.Sum(nil))
}

// VerifyProof reports in constant time whether proof belongs to nonce and subject.
func (k ProofKey) VerifyProof(proof, nonce, subject string) bool {
	return hmac.Equal([]byte(proof), []byte(k.SignProof(nonce, subject)))
}
