package hook

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
)

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
