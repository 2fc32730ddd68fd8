package registry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluicegate/sluice/tests/check"
)

// lure is a public registry whose responses lead to another address. Other requests use the
// network.
type lure struct {
	header http.Header
	status int
	rest   http.RoundTripper
}

func (l lure) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() != "registry.example" {
		return l.rest.RoundTrip(r)
	}
	return answering{status: l.status, header: l.header}.RoundTrip(r)
}

// TestInternalAddressIsNotContacted tests redirects, token servers, and names that resolve to internal
// addresses.
func TestInternalAddressIsNotContacted(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(inside.Close)
	port := inside.URL[strings.LastIndex(inside.URL, ":"):]
	for _, address := range []string{inside.URL, "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port, "http://127.1" + port, "https://127.0.0.1" + port} {
		lures := map[string]lure{
			"redirect":  {status: http.StatusTemporaryRedirect, header: http.Header{"Location": {address + "/v2/x"}}},
			"permanent": {status: http.StatusMovedPermanently, header: http.Header{"Location": {address + "/v2/x"}}},
			"realm":     {status: http.StatusUnauthorized, header: http.Header{"Www-Authenticate": {`Bearer realm="` + address + `/token",service="x"`}}},
		}
		for name, l := range lures {
			r := resolver(t, Access{})
			t.Cleanup(r.Close)
			l.rest, r.client, r.keychain = r.client, nil, authn.NewMultiKeychain()
			r.client = l
			digest, note := r.Resolve(t.Context(), "registry.example/shop/hello:v1")
			if digest != "" || note == "" || strings.Contains(note, "127.") {
				t.Errorf("%s to %s: digest %q, note %q", name, address, digest, note)
			}
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("internal requests: got %d, want 0", n)
	}
}

func TestPublicOnly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address string
		ok      bool
	}{
		{"93.184.216.34:443", true},
		{"[2606:2800:220:1:248:1893:25c8:1946]:443", true},
		{"127.0.0.1:443", false},
		{"127.255.255.254:80", false},
		{"10.1.2.3:443", false},
		{"172.31.255.255:443", false},
		{"192.168.1.1:443", false},
		{"169.254.169.254:80", false},
		{"100.100.100.200:80", false},
		{"0.0.0.0:80", false},
		{"255.255.255.255:80", false},
		{"224.0.0.1:80", false},
		{"192.0.0.192:80", false},
		{"[::1]:443", false},
		{"[::]:443", false},
		{"[::ffff:10.0.0.1]:443", false},
		{"[::ffff:169.254.169.254]:80", false},
		{"[::127.0.0.1]:80", false},
		{"[fe80::1%eth0]:443", false},
		{"[fd00:ec2::254]:80", false},
		{"[ff02::1]:80", false},
		{"[64:ff9b::a9fe:a9fe]:80", false},
		{"[2002:7f00:1::]:80", false},
		{"[2001:0:7f00:1::]:80", false},
		{"localhost:80", false},
		{"", false},
	}
	for _, tt := range tests {
		if err := publicOnly("tcp", tt.address, nil); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.address, err)
		}
	}
}

// FuzzPublicOnly tests that no rejected IPv4 address is accepted in an IPv6 form.
func FuzzPublicOnly(f *testing.F) {
	f.Add(uint32(0x7f000001))
	f.Add(uint32(0xa9fea9fe))
	f.Add(uint32(0x08080808))
	f.Fuzz(func(t *testing.T, n uint32) {
		v4 := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		b := v4.As4()
		wrapped := map[string]netip.Addr{
			"mapped": netip.AddrFrom16(v4.As16()),
			"NAT64":  netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], b[1], b[2], b[3]}),
			"6to4":   netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]}),
			"compat": netip.AddrFrom16([16]byte{12: b[0], b[1], b[2], b[3]}),
		}
		direct := publicOnly("tcp", netip.AddrPortFrom(v4, 443).String(), nil)
		for name, a := range wrapped {
			if err := publicOnly("tcp", netip.AddrPortFrom(a, 443).String(), nil); direct != nil && err == nil {
				t.Errorf("%s is rejected, but %s (%s) is accepted", v4, a, name)
			}
		}
		if direct == nil && (v4.IsPrivate() || v4.IsLoopback() || v4.IsLinkLocalUnicast() || v4.IsMulticast() || v4.IsUnspecified()) {
			t.Errorf("%s is accepted", v4)
		}
	})
}

func TestDialerRejectsPrivateAddress(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	d := net.Dialer{Timeout: patience, Control: publicOnly}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := d.DialContext(ctx, "tcp", host+l.Addr().String()[strings.LastIndex(l.Addr().String(), ":"):])
		cancel()
		if !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
