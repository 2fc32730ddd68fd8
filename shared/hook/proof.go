package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// The headers that prove a call.
const (
	TokenHeader     = "X-Service-Token"
	SignatureHeader = "X-Hub-Signature-256"
)

// signaturePrefix names the one algorithm that is accepted.
const signaturePrefix = "sha256="

// Claim is how a call claims to know the token: by what its header says, and, where
// that holds a signature, by its body.
// The zero Claim proves nothing.
type Claim struct {
	tokens, signatures []string // at most one of each
}

// ClaimOf reads a call's claim. ok is false where it makes none, or a header stands
// twice.
func ClaimOf(header http.Header) (c Claim, ok bool) {
	c = Claim{tokens: header.Values(TokenHeader), signatures: header.Values(SignatureHeader)}
	if len(c.tokens) > 1 || len(c.signatures) > 1 || c.empty() {
		return Claim{}, false
	}
	return c, true
}

func (c Claim) empty() bool { return len(c.tokens)+len(c.signatures) == 0 }

// CarriesToken tells whether the call carries the token itself, so that it can be
// refused before its body is read.
func (c Claim) CarriesToken() bool { return len(c.tokens) > 0 }

// Formed tells whether the claim has the form of a true one.
func (c Claim) Formed() bool {
	for _, given := range c.tokens {
		if !Token(given).Valid() {
			return false
		}
	}
	for _, given := range c.signatures {
		if len(given) != len(signaturePrefix)+hex.EncodedLen(sha256.Size) {
			return false
		}
	}
	return true
}

// Knows tells whether the token that the call carries is this one.
func (c Claim) Knows(token Token) bool {
	ok := token.Valid() && c.CarriesToken()
	for _, given := range c.tokens {
		ok = sameToken(token, given) && ok
	}
	return ok
}

// Proves tells whether the call, with this raw body, knows the token.
func (c Claim) Proves(token Token, body []byte) bool {
	ok := token.Valid() && !c.empty()
	// Both are always looked at, so that the time tells nothing about which failed.
	for _, given := range c.tokens {
		ok = sameToken(token, given) && ok
	}
	for _, given := range c.signatures {
		ok = signed(token, given, body) && ok
	}
	return ok
}

// sameToken compares in a time that depends on the lengths alone, which are no
// secret.
func sameToken(token Token, given string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(given)) == 1
}

// signed checks "sha256=" and the lower-case hex HMAC-SHA256 of the body. The hex
// forms are compared, so that no second spelling of a digest passes.
func signed(token Token, given string, body []byte) bool {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	want := hex.EncodeToString(mac.Sum(nil))
	digest, found := strings.CutPrefix(given, signaturePrefix)
	return subtle.ConstantTimeCompare([]byte(want), []byte(digest)) == 1 && found
}
