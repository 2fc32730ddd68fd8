package cluster

import (
	"net/textproto"
	"regexp"
	"strings"
	"testing"
)

// FuzzIdentityHeaders tests that the gate removes exactly the identity headers and the key's header,
// with any separators, and the headers of an upgrade.
func FuzzIdentityHeaders(f *testing.F) {
	for _, name := range []string{
		"X-Service-Key-Prefix", "x_service_key_name", "X.API.Key", "X~Service!Key|Name", "X-Api-Keys", "XX-Api-Key", "X--Api-Key", "XApiKey",
		"X-Service-Key", "X-Service-Key-Prefix-", "\u212a", "X-Api-\u212aey", "X-\u017fervice-Key-Name", "X-Api-Key\n", "",
		"Upgrade", "UPGRADE", "http2-settings", "HTTP2_Settings", "Upgrade-Insecure-Requests", "Http2-Settings-",
	} {
		f.Add(name)
	}
	strip := regexp.MustCompile(removedHeaders)
	f.Fuzz(func(t *testing.T, name string) {
		if !token(name) {
			return // not a valid header name
		}
		want := strings.EqualFold(name, "upgrade") || strings.EqualFold(name, "http2-settings")
		switch separated(name) {
		case "x_service_key_prefix", "x_service_key_name", "x_api_key":
			want = true
		}
		if got := strip.MatchString(name); got != want {
			t.Errorf("%q is removed: got %t, want %t", name, got, want)
		}
		if got := strip.MatchString(textproto.CanonicalMIMEHeaderKey(name)); got != want {
			t.Errorf("%q in canonical spelling is removed: got %t, want %t", name, got, want)
		}
	})
}

func token(s string) bool {
	for _, c := range []byte(s) {
		if !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// separated returns the name as seen by a backend that treats all separators as the same.
func separated(name string) string {
	return strings.Map(func(c rune) rune {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return '_'
		}
		return c
	}, strings.ToLower(name))
}
