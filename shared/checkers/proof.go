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

// The headers of probes and denials, in canonical form.
const (
	NonceHeader = "X-Sluice-Probe" // in the request
	ProofHeader = "X-Sluice-Proof" // in the denial
)

const (
	purpose     = "sluice gate proof 1"
	nonceLength = 26 // of rand.Text
)

// ProofKey signs proofs.
type ProofKey [sha256.Size]byte

// LogValue redacts the key in logs.
func (ProofKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// DeriveProofKey derives the key from the PEM of the certificate's private key.
func DeriveProofKey(privateKey []byte) (ProofKey, error) {
	if len(privateKey) == 0 {
		return ProofKey{}, errors.New("derive proof key: empty private key")
	}
	derived, err := hkdf.Key(sha256.New, privateKey, nil, purpose, sha256.Size)
	if err != nil {
		return ProofKey{}, fmt.Errorf("derive proof key: %w", err)
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

// maxGeneration is the maximum length of a generation: 64 bits in base 36.
const maxGeneration = 13

// ValidGeneration reports whether s has the form of a generation: 1 to 13 characters 0-9 and a-z.
func ValidGeneration(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxGeneration
}

// SignProof returns the proof for a nonce and a subject, which is "{namespace}/{app}" or
// "{namespace}/{app}/{generation}".
func (k ProofKey) SignProof(nonce, subject string) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(nonce + "\n" + subject)) // unambiguous: a nonce has a fixed length and no line break
	return hex.EncodeToString(mac.Sum(nil))
}

// VerifyProof reports in constant time whether proof is valid for nonce and subject.
func (k ProofKey) VerifyProof(proof, nonce, subject string) bool {
	return hmac.Equal([]byte(proof), []byte(k.SignProof(nonce, subject)))
}
