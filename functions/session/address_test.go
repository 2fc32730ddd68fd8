package session

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/trace"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, remote string
		forwarded    []string
		trust        trace.Trust
		want         string
	}{
		{"the peer", "192.0.2.1:1234", nil, trace.TrustNobody, "192.0.2.1"},
		{"a header that nobody vouches for", "192.0.2.1:1234", []string{"198.51.100.7"}, trace.TrustNobody, "192.0.2.1"},
		{"whom the proxy says", "10.0.0.1:1234", []string{"198.51.100.7"}, trace.TrustForwarded, "198.51.100.7"},
		{"not what the client says before it", "10.0.0.1:1234", []string{"1.1.1.1, 198.51.100.7"}, trace.TrustForwarded, "198.51.100.7"},
		{"nor in a header of its own", "10.0.0.1:1234", []string{"1.1.1.1", "2.2.2.2,198.51.100.7"}, trace.TrustForwarded, "198.51.100.7"},
		{"no header", "10.0.0.1:1234", nil, trace.TrustForwarded, "10.0.0.1"},
		{"an empty header", "10.0.0.1:1234", []string{""}, trace.TrustForwarded, "10.0.0.1"},
		{"a header that ends empty", "10.0.0.1:1234", []string{"1.1.1.1, "}, trace.TrustForwarded, "10.0.0.1"},
		{"something else", "10.0.0.1:1234", []string{"unknown"}, trace.TrustForwarded, "10.0.0.1"},
		{"an IPv6 peer by its network", "[2001:db8:1:2:3:4:5:6]:1234", nil, trace.TrustNobody, "2001:db8:1:2::/64"},
		{"a zone is not part of it", "[fe80::1%eth0]:1234", nil, trace.TrustNobody, "fe80::/64"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:1234", nil, trace.TrustNobody, "192.0.2.1"},
		{"no port", "192.0.2.1", nil, trace.TrustNobody, "192.0.2.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = tt.remote
			for _, v := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", v)
			}
			if got := clientAddress(r, tt.trust); got != tt.want {
				t.Errorf("address is %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzClientAddress(f *testing.F) {
	f.Add("192.0.2.1:1234", "1.1.1.1, 198.51.100.7")
	f.Add("[::1%zone]:1", ",")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = remote
		r.Header["X-Forwarded-For"] = []string{"6.6.6.6", forwarded}
		// Whatever stands before the last comma is the client's word and must not count.
		last := forwarded[strings.LastIndexByte(forwarded, ',')+1:]
		one := clientAddress(r, trace.TrustForwarded)
		r.Header["X-Forwarded-For"] = []string{last}
		if two := clientAddress(r, trace.TrustForwarded); one != two {
			t.Errorf("%q and its last hop %q give %q and %q", forwarded, last, one, two)
		}
	})
}
