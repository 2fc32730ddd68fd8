package trace

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, remote string
		forwarded    []string
		trust        Trust
		want         string
	}{
		{"the peer", "192.0.2.1:1234", nil, TrustNobody, "192.0.2.1"},
		{"a header that nobody vouches for", "192.0.2.1:1234", []string{"198.51.100.7"}, TrustNobody, "192.0.2.1"},
		{"whom the proxy says", "10.0.0.1:1234", []string{"198.51.100.7"}, TrustForwarded, "198.51.100.7"},
		{"not what the client says before it", "10.0.0.1:1234", []string{"1.1.1.1, 198.51.100.7"}, TrustForwarded, "198.51.100.7"},
		{"nor in a header of its own", "10.0.0.1:1234", []string{"1.1.1.1", "2.2.2.2,198.51.100.7"}, TrustForwarded, "198.51.100.7"},
		{"no header", "10.0.0.1:1234", nil, TrustForwarded, "10.0.0.1"},
		{"an empty header", "10.0.0.1:1234", []string{""}, TrustForwarded, "10.0.0.1"},
		{"a header that ends empty", "10.0.0.1:1234", []string{"1.1.1.1, "}, TrustForwarded, "10.0.0.1"},
		{"something else", "10.0.0.1:1234", []string{"unknown"}, TrustForwarded, "10.0.0.1"},
		{"an IPv6 peer by its network", "[2001:db8:1:2:3:4:5:6]:1234", nil, TrustNobody, "2001:db8:1:2::/64"},
		{"a zone is not part of it", "[fe80::1%eth0]:1234", nil, TrustNobody, "fe80::/64"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:1234", nil, TrustNobody, "192.0.2.1"},
		{"no port", "192.0.2.1", nil, TrustNobody, "192.0.2.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = tt.remote
			for _, v := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", v)
			}
			if got := Network(r, tt.trust); got != tt.want {
				t.Errorf("network is %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzNetwork(f *testing.F) {
	f.Add("192.0.2.1:1234", "1.1.1.1, 198.51.100.7")
	f.Add("[::1%zone]:1", ",")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = remote
		r.Header["X-Forwarded-For"] = []string{"6.6.6.6", forwarded}
		// Whatever stands before the last comma is the client's word and must not count.
		last := forwarded[strings.LastIndexByte(forwarded, ',')+1:]
		one := Network(r, TrustForwarded)
		r.Header["X-Forwarded-For"] = []string{last}
		if two := Network(r, TrustForwarded); one != two {
			t.Errorf("%q and its last hop %q give %q and %q", forwarded, last, one, two)
		}
	})
}
