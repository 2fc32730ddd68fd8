package reqctx

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

const testSecret Secret = "0123456789abcdef0123456789abcdef"

func proxiesOf(t testing.TB, text string) (p Proxies) {
	t.Helper()
	check.OK(t, p.UnmarshalText([]byte(text)))
	return p
}

// The ingress is 10.0.0.1, Knative's gateway 10.0.0.2, its activator 10.0.0.3, and a pod's
// sidecar 127.0.0.1.
func TestAddress(t *testing.T) {
	t.Parallel()
	const hops = "10.0.0.1, 10.0.0.2,10.0.0.3,127.0.0.0/8,2001:db8:1::/48"
	tests := []struct {
		name, proxies, peer string
		forwarded           []string
		want                string
	}{
		{"no proxy", "", "192.0.2.1:1234", nil, "192.0.2.1"},
		{"no trusted proxy", "", "192.0.2.1:1234", []string{"203.0.113.9"}, "192.0.2.1"},
		{"the ingress", hops, "10.0.0.1:1234", []string{"203.0.113.9"}, "203.0.113.9"},
		{"entries of the client", hops, "10.0.0.1:1234", []string{"6.6.6.6, 203.0.113.9"}, "203.0.113.9"},
		{"a header of the client", hops, "10.0.0.1:1234", []string{"6.6.6.6", "203.0.113.9"}, "203.0.113.9"},
		{"a pod", hops, "10.0.9.9:1234", []string{"6.6.6.6"}, "10.0.9.9"},
		{"Knative", hops, "127.0.0.1:1234", []string{"203.0.113.9, 10.0.0.1, 10.0.0.2", "10.0.0.3"}, "203.0.113.9"},
		{"Knative without the activator", hops, "127.0.0.1:1234", []string{"203.0.113.9, 10.0.0.1, 10.0.0.2"}, "203.0.113.9"},
		{"a pod at Knative's gateway", hops, "127.0.0.1:1234", []string{"6.6.6.6, 10.0.9.9, 10.0.0.2, 10.0.0.3"}, "10.0.9.9"},
		{"a pod that names the ingress", hops, "127.0.0.1:1234", []string{"6.6.6.6, 10.0.0.1, 10.0.9.9, 10.0.0.2"}, "10.0.9.9"},
		{"a pod at the sidecar", hops, "127.0.0.1:1234", []string{"6.6.6.6, 10.0.9.9"}, "10.0.9.9"},
		{"a proxy as the client", hops, "127.0.0.1:1234", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"no header", hops, "10.0.0.1:1234", nil, "10.0.0.1"},
		{"an empty header", hops, "10.0.0.1:1234", []string{""}, "10.0.0.1"},
		{"a header that ends empty", hops, "10.0.0.1:1234", []string{"6.6.6.6, "}, "10.0.0.1"},
		{"text", hops, "10.0.0.1:1234", []string{"<script>"}, "10.0.0.1"},
		{"text before a proxy", hops, "10.0.0.2:1234", []string{"unknown, 10.0.0.1"}, "10.0.0.1"},
		{"IPv6", hops, "[2001:db8:1::1]:1234", []string{"2001:db8:2::7"}, "2001:db8:2::7"},
		{"a zone", "", "[2001:db8::1%eth0]:1234", nil, "2001:db8::1"},
		{"IPv4 in IPv6", hops, "[::ffff:10.0.0.1]:1234", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"no port", "", "192.0.2.1", nil, "192.0.2.1"},
		{"no peer", hops, "@", []string{"203.0.113.9"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			r.Header["X-Real-Ip"] = []string{"6.6.6.6"}
			if got := NewClients(proxiesOf(t, tt.proxies), "").Address(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("192.0.2.1:1234", "6.6.6.6, 198.51.100.7")
	f.Add("[::1%zone]:1", ",")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = remote
		r.Header["X-Forwarded-For"] = []string{forwarded}
		if got, want := NewClients(Proxies{}, "").Address(r), Peer(r); got != want {
			t.Errorf("got %q without a trusted proxy, want %q", got, want)
		}
		// Entries to the left of the client's address do not change it.
		r.RemoteAddr = "10.0.0.1:1"
		r.Header["X-Forwarded-For"] = []string{forwarded, "198.51.100.7"}
		if got := NewClients(proxiesOf(t, "10.0.0.1"), "").Address(r); got != "198.51.100.7" {
			t.Errorf("got %q after %q", got, forwarded)
		}
	})
}

func TestProxies(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"": true, " 10.0.0.0/8 ,::1, proxy.example.svc ": true,
		"10.0.0.0/33": false, "1.2.3": false, "http://proxy": false, "a b": false,
	} {
		if err := new(Proxies).UnmarshalText([]byte(text)); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A proxy is trusted while its name resolves to its address and a minute longer. A failed lookup
// does not shorten this.
func TestProxiesByName(t *testing.T) {
	t.Parallel()
	var found []netip.Addr
	var failed error
	now := time.Now()
	c := NewClients(proxiesOf(t, "ingress.example.svc"), "")
	c.lookup = func(context.Context, string) ([]netip.Addr, error) { return found, failed }
	c.now = func() time.Time { return now }
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Header["X-Forwarded-For"] = "10.0.0.1:1", []string{"203.0.113.9"}
	log := slog.New(slog.DiscardHandler)
	for _, step := range []struct {
		name  string
		found []netip.Addr
		err   error
		after time.Duration
		want  string
	}{
		{"before", nil, nil, 0, "10.0.0.1"},
		{"found", []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")}, nil, 0, "203.0.113.9"},
		{"failed", nil, errors.New("no server"), resolvedFor - 1, "203.0.113.9"},
		{"gone", nil, nil, 1, "10.0.0.1"},
	} {
		now, found, failed = now.Add(step.after), step.found, step.err
		c.resolve(t.Context(), log)
		if got := c.Address(r); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

func TestSignedClientAddressIsVerified(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const session = "Bearer one"
	signed := Vouch(testSecret, "203.0.113.9", session, now)
	parts := strings.Split(signed, " ")
	for name, tt := range map[string]struct {
		secret        Secret
		header        []string
		authorization string
		after         time.Duration
		want          string
	}{
		"the console":      {testSecret, []string{signed}, session, time.Minute, "203.0.113.9"},
		"a slow clock":     {testSecret, []string{signed}, session, -time.Minute, "203.0.113.9"},
		"an old header":    {testSecret, []string{signed}, session, 3 * time.Minute, "10.0.0.1"},
		"a future header":  {testSecret, []string{signed}, session, -3 * time.Minute, "10.0.0.1"},
		"another session":  {testSecret, []string{signed}, "Bearer two", 0, "10.0.0.1"},
		"another address":  {testSecret, []string{parts[0] + " 6.6.6.6 " + parts[2]}, session, 0, "10.0.0.1"},
		"another secret":   {testSecret, []string{Vouch("fedcba9876543210fedcba9876543210", "6.6.6.6", session, now)}, session, 0, "10.0.0.1"},
		"no signature":     {testSecret, []string{parts[0] + " 6.6.6.6 "}, session, 0, "10.0.0.1"},
		"only an address":  {testSecret, []string{"6.6.6.6"}, session, 0, "10.0.0.1"},
		"two headers":      {testSecret, []string{signed, signed}, session, 0, "10.0.0.1"},
		"no secret":        {"", []string{signed}, session, 0, "10.0.0.1"},
		"no secret at all": {"", []string{parts[0] + " 6.6.6.6 "}, session, 0, "10.0.0.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header[ClientHeader], r.Header["Authorization"] = tt.header, []string{tt.authorization}
		c := NewClients(Proxies{}, tt.secret)
		c.now = func() time.Time { return now.Add(tt.after) }
		if got := c.Address(r); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	if Vouch("", "203.0.113.9", session, now) != "" || Vouch(testSecret, "", session, now) != "" {
		t.Error("a header is written without a secret or an address")
	}
}

func TestConsoleSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(file, []byte(string(testSecret)+"\n"), 0o600))
	for name, tt := range map[string]struct {
		console Console
		want    Secret
		valid   bool
	}{
		"none":       {Console{}, "", true},
		"a value":    {Console{Secret: testSecret}, testSecret, true},
		"a file":     {Console{File: file}, testSecret, true},
		"both":       {Console{Secret: testSecret, File: file}, "", false},
		"too short":  {Console{Secret: "short"}, "", false},
		"no file":    {Console{File: file + "x"}, "", false},
		"empty file": {Console{File: os.DevNull}, "", false},
	} {
		if got, err := tt.console.Read(); string(got) != string(tt.want) || (err == nil) != tt.valid {
			t.Errorf("%s: got %q, %v", name, string(got), err)
		}
	}
	if s := testSecret.String() + testSecret.GoString(); strings.Contains(s, string(testSecret)) {
		t.Error("the secret is printed")
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "", "192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64"} {
		if got := Network(Begin(t.Context(), Request{ID: "r1", Address: address})); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
	if got := Network(t.Context()); got != "" {
		t.Errorf("got %q without a request", got)
	}
}
