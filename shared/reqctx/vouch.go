package reqctx

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
	// ClientHeader is the name of the header with the client's address in calls from the console;
	// see [Vouch].
	ClientHeader = "Sluice-Client-Address"

	// vouchedFor is the accepted difference between the header's time and the current time.
	vouchedFor = 2 * time.Minute

	minSecret = 32
)

// Secret is the shared secret of the console and the management API's functions.
type Secret string

func (Secret) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer].
func (Secret) GoString() string { return "[redacted]" }

// Console holds the settings for the secret. Without a secret, changes through the console are
// recorded with the console's address.
type Console struct {
	Secret Secret `env:"CONSOLE_TOKEN"`
	File   string `env:"CONSOLE_TOKEN_FILE"` // file that contains the secret
}

// Read returns the secret, or "" if there is none.
func (c Console) Read() (Secret, error) {
	if c.File != "" {
		if c.Secret != "" {
			return "", errors.New("CONSOLE_TOKEN and CONSOLE_TOKEN_FILE are both set; set only one")
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

// Vouch returns the value of [ClientHeader] for a call on behalf of a client, signed with s. It is
// valid for a short time and only with the same Authorization header. It is "" without a secret or
// an address.
func Vouch(s Secret, address, authorization string, now time.Time) string {
	if s == "" || address == "" {
		return ""
	}
	at := strconv.FormatInt(now.Unix(), 10)
	return at + " " + address + " " + hex.EncodeToString(s.sign(at, address, authorization))
}

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
		_, _ = fmt.Fprintf(mac, "%d %s", len(part), part)
	}
	return mac.Sum(nil)
}
