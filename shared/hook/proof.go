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

// Proven tells whether a call with this header and this raw body knows the token.
func Proven(token Token, header http.Header, body []byte) bool {
	tokens, signatures := header.Values(TokenHeader), header.Values(SignatureHeader)
	if len(tokens) > 1 || len(signatures) > 1 || len(tokens)+len(signatures) == 0 {
		return false
	}
	ok := token.Valid()
	// Both are always looked at, so that the time tells nothing about which failed.
	for _, given := range tokens {
		ok = sameToken(token, given) && ok
	}
	for _, given := range signatures {
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
