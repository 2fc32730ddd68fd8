package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// The headers that prove a call. GitLab sends the token in a header with a fixed name.
const (
	TokenHeader       = "X-Service-Token"
	GitLabTokenHeader = "X-Gitlab-Token" //nolint:gosec // a name
	SignatureHeader   = "X-Hub-Signature-256"
)

// signaturePrefix names the one algorithm that is accepted.
const signaturePrefix = "sha256="

// Claim is how a call claims to know the token: by what its header says, and, where
// that holds a signature, by its body.
// The zero Claim proves nothing.
type Claim struct {
	tokens, signatures []string // at most one of each header
}

// ClaimOf reads a call's claim. ok is false where it makes none, or a header stands
// twice.
func ClaimOf(header http.Header) (c Claim, ok bool) {
	for _, name := range []string{TokenHeader, GitLabTokenHeader} {
		values := header.Values(name)
		if len(values) > 1 {
			return Claim{}, false
		}
		c.tokens = append(c.tokens, values...)
	}
	c.signatures = header.Values(SignatureHeader)
	if len(c.signatures) > 1 || c.empty() {
		return Claim{}, false
	}
	return c, true
}

// BearerOf reads the token that a pipeline's provider has issued to it (Authorization:
// Bearer). It counts only where there is no claim to know the app's token; ok is false where
// there is none, or two.
func BearerOf(header http.Header) (token string, ok bool) {
	if len(header.Values(TokenHeader))+len(header.Values(GitLabTokenHeader))+len(header.Values(SignatureHeader)) > 0 {
		return "", false
	}
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
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

// Sign gives a body's signature under a token, as [SignatureHeader] carries it.
func Sign(token Token, body []byte) string { return signaturePrefix + digest(token, body) }

// digest is the lower-case hex HMAC-SHA256 of a body.
func digest(token Token, body []byte) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// signed checks a signature. The hex forms are compared, so that no second spelling of a
// digest passes.
func signed(token Token, given string, body []byte) bool {
	got, found := strings.CutPrefix(given, signaturePrefix)
	return subtle.ConstantTimeCompare([]byte(digest(token, body)), []byte(got)) == 1 && found
}

// tokenBytes is how many random bytes a token holds: 256 bits.
const tokenBytes = 32

// Token is an app's webhook token: 32 random bytes in base64url without padding,
// 43 characters. It prints as "[redacted]"; string(t) is the token.
type Token string

// NewToken draws a token from random, which is crypto/rand's reader but in tests.
func NewToken(random io.Reader) (Token, error) {
	b := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("draw a webhook token: %w", err)
	}
	return Token(base64.RawURLEncoding.EncodeToString(b)), nil
}

// Valid tells whether t has a token's form. What does not is nobody's token, so
// that an empty or damaged Secret opens nothing.
func (t Token) Valid() bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(t))
	return err == nil && len(b) == tokenBytes
}

// LogValue keeps the token out of logs.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the token out of anything printed.
func (Token) String() string { return "[redacted]" }

// GoString keeps the token out of %#v.
func (Token) GoString() string { return "[redacted]" }
