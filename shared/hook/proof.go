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

// The headers that authenticate a call.
const (
	TokenHeader       = "X-Service-Token"
	GitLabTokenHeader = "X-Gitlab-Token" //nolint:gosec // a name
	SignatureHeader   = "X-Hub-Signature-256"
)

const signaturePrefix = "sha256="

// Claim holds the tokens and signatures of a call. The zero Claim is never valid.
type Claim struct {
	tokens, signatures []string // at most one per header
}

// ClaimOf returns a call's claim, and false if it has none or a duplicate header.
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

// BearerOf returns the token of a pipeline (Authorization: Bearer), and false if there is not
// exactly one, or if the call has a [Claim].
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

// CarriesToken reports whether the claim has a token. It can then be verified before the body is
// read.
func (c Claim) CarriesToken() bool { return len(c.tokens) > 0 }

// Formed reports whether all tokens and signatures have a valid format.
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

// Knows reports whether the claim has tokens and all of them equal the given token.
func (c Claim) Knows(token Token) bool {
	ok := token.Valid() && c.CarriesToken()
	for _, given := range c.tokens {
		ok = sameToken(token, given) && ok
	}
	return ok
}

// Proves reports whether the claim is valid for the token and the raw body.
func (c Claim) Proves(token Token, body []byte) bool {
	ok := token.Valid() && !c.empty()
	// Check all of them, so that the duration does not reveal which one is wrong.
	for _, given := range c.tokens {
		ok = sameToken(token, given) && ok
	}
	for _, given := range c.signatures {
		ok = signed(token, given, body) && ok
	}
	return ok
}

// sameToken compares in a time that depends only on the lengths, which are public.
func sameToken(token Token, given string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(given)) == 1
}

// Sign returns the value of [SignatureHeader] for a body.
func Sign(token Token, body []byte) string { return signaturePrefix + digest(token, body) }

func digest(token Token, body []byte) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// signed compares hex digits, so that each signature has only one valid form.
func signed(token Token, given string, body []byte) bool {
	got, found := strings.CutPrefix(given, signaturePrefix)
	return subtle.ConstantTimeCompare([]byte(digest(token, body)), []byte(got)) == 1 && found
}

const tokenBytes = 32

// Token is an app's webhook token: 32 random bytes in unpadded base64url, 43 characters. It
// prints as "[redacted]"; string(t) is the token.
type Token string

// NewToken returns a new random token.
func NewToken(random io.Reader) (Token, error) {
	b := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("generate webhook token: %w", err)
	}
	return Token(base64.RawURLEncoding.EncodeToString(b)), nil
}

// Valid reports whether t has the format of a token. It prevents an empty or damaged Secret from
// authenticating calls.
func (t Token) Valid() bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(t))
	return err == nil && len(b) == tokenBytes
}

// LogValue returns a redacted value.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Token) String() string { return "[redacted]" }

// GoString returns a redacted value for %#v.
func (Token) GoString() string { return "[redacted]" }
