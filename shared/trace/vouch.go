package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// ClientHeader is the header in which the console names its client, see [Vouch].
	ClientHeader = "Sluice-Client-Address"

	// vouchedFor is the difference of clocks up to which that header is accepted.
	vouchedFor = 2 * time.Minute

	minSecret = 32 // characters
)

// Secret is the secret that the console and the functions of the management API share.
type Secret string

// String hides the secret from logs.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "[redacted]" }

// Console is the setting of the secret. Without one, no function believes the console, and the
// records of changes through the console have the console's own address.
type Console struct {
	Secret Secret `env:"CONSOLE_TOKEN"`
	File   string `env:"CONSOLE_TOKEN_FILE"` // a file with the secret, instead of the secret
}

// Read returns the secret, or "" if there is none.
func (c Console) Read() (Secret, error) {
	if c.File != "" {
		if c.Secret != "" {
			return "", errors.New("CONSOLE_TOKEN and CONSOLE_TOKEN_FILE are both set")
		}
		text, err := os.ReadFile(c.File)
		if err != nil {
			return "", fmt.Errorf("CONSOLE_TOKEN_FILE: %w", err)
		}
		c.Secret = Secret(strings.TrimSpace(string(text)))
	}
	if set := c.Secret != "" || c.File != ""; set && len(c.Secret) < minSecret {
		return "", fmt.Errorf("the token of CONSOLE_TOKEN or its file must have at least %d characters", minSecret)
	}
	return c.Secret, nil
}

// Vouch returns the value of [ClientHeader] for a call that the console makes for a client. The
// value is valid for a short time, and only with the call's Authorization header, which may be
// empty. It is "" without a secret or an address.
func Vouch(s Secret, address, authorization string, now time.Time) string {
	if s == "" || address == "" {
		return ""
	}
	at := strconv.FormatInt(now.Unix(), 10)
	return at + " " + address + " " + hex.EncodeToString(s.sign(at, address, authorization))
}

// vouched returns the address that the console has named. ok is false without the console's
// signature.
func (c *Clients) vouched(h http.Header) (address netip.Addr, ok bool) {
	lines := h[ClientHeader]
	if c.console == "" || len(lines) != 1 {
		return netip.Addr{}, false
	}
	fields := strings.Split(lines[0], " ")
	if len(fields) != 3 {
		return netip.Addr{}, false
	}
	given, err := hex.DecodeString(fields[2])
	if err != nil || !hmac.Equal(given, c.console.sign(fields[0], fields[1], h.Get("Authorization"))) {
		return netip.Addr{}, false
	}
	at, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || c.now().Sub(time.Unix(at, 0)).Abs() > vouchedFor {
		return netip.Addr{}, false
	}
	return parse(fields[1])
}

func (s Secret) sign(at, address, authorization string) []byte {
	mac := hmac.New(sha256.New, []byte(s))
	for _, part := range []string{"client address", at, address, authorization} {
		_, _ = fmt.Fprintf(mac, "%d %s", len(part), part) // a hash takes everything
	}
	return mac.Sum(nil)
}
