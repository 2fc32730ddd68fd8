package ca

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func renewed(t *testing.T, b Bundle, now time.Time) Bundle {
	t.Helper()
	b, _, err := b.Renew(now)
	check.OK(t, err)
	return b
}

func issued(t *testing.T, b Bundle, host string, now time.Time) (cert, key []byte) {
	t.Helper()
	cert, key, err := b.Issue(host, now)
	check.OK(t, err)
	verify(t, b, cert, key, host, now)
	return cert, key
}

func verify(t *testing.T, b Bundle, cert, key []byte, host string, now time.Time) {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	check.OK(t, err)
	certs, _, err := b.PEM()
	check.OK(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certs)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Errorf("at %v: %v", now, err)
	}
}

func TestIssue(t *testing.T) {
	t.Parallel()
	b := renewed(t, nil, start)
	for _, host := range []string{"sluice-checker.sluice-system.svc", "127.96.0.7", "::1"} {
		cert, key := issued(t, b, host, start)
		for name, tt := range map[string]struct {
			host string
			now  time.Time
			want bool
		}{
			"at once":               {host, start, true},
			"at half its life":      {host, start.Add(CertificateLife / 2), true},
			"at two thirds":         {host, start.Add(CertificateLife * 2 / 3), false},
			"for another host":      {"other.example", start, false},
			"for another address":   {"127.96.0.8", start, false},
			"after it has run out":  {host, start.Add(2 * CertificateLife), false},
			"when nothing is there": {host, start, false},
		} {
			c, k := cert, key
			if name == "when nothing is there" {
				c, k = nil, nil
			}
			if got := b.Good(c, k, tt.host, tt.now); got != tt.want {
				t.Errorf("%s %s: Good: got %v", host, name, got)
			}
		}
		if renewed(t, nil, start).Good(cert, key, host, start) {
			t.Error("Good returned true for another authority")
		}
	}
	if _, _, err := (Bundle{}).Issue("x", start); err == nil {
		t.Error("Issue without an authority: got no error")
	}
}

// TestRotation runs through the life of two authorities by days. The certificate in use must
// verify against the current bundle and that of the previous day.
func TestRotation(t *testing.T) {
	t.Parallel()
	const host = "checker"
	b := renewed(t, nil, start)
	cert, key := issued(t, b, host, start)
	yesterday := b
	days := 0
	var added, switched, dropped time.Time
	for now := start; now.Before(start.Add(2 * Life)); now = now.Add(24 * time.Hour) {
		was := len(b)
		b = renewed(t, b, now)
		if len(b) > was && added.IsZero() {
			added = now
		}
		if len(b) < was && dropped.IsZero() {
			dropped = now
		}
		if !b.Good(cert, key, host, now) {
			before := cert
			cert, key = issued(t, b, host, now)
			if !added.IsZero() && switched.IsZero() && !sameIssuer(t, before, cert) {
				switched = now
			}
		}
		if days++; len(b) > 1 || days%20 == 0 { // each day while there are two authorities
			verify(t, yesterday, cert, key, host, now)
		}
		yesterday = b
	}
	if added.IsZero() || switched.Sub(added) < Overlap || !dropped.After(switched) || len(b) > 2 {
		t.Errorf("second authority added %v, signing from %v, first removed %v; %d remaining", added, switched, dropped, len(b))
	}
}

func leaf(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	c, err := x509.ParseCertificate(block.Bytes)
	check.OK(t, err)
	return c
}

func sameIssuer(t *testing.T, a, b []byte) bool {
	t.Helper()
	return bytes.Equal(leaf(t, a).RawIssuer, leaf(t, b).RawIssuer)
}

func TestParse(t *testing.T) {
	t.Parallel()
	b := renewed(t, nil, start)
	b = renewed(t, b, start.Add(Life*3/4))
	certs, keys, err := b.PEM()
	check.OK(t, err)
	got, err := Parse(certs, keys)
	if err != nil || len(got) != 2 || !got[0].cert.Equal(b[0].cert) || !got[1].key.Equal(b[1].key) {
		t.Errorf("parsed %d authorities, %v", len(got), err)
	}
	if got, err := Parse(nil, nil); err != nil || len(got) != 0 {
		t.Errorf("empty input: got %v, %v", got, err)
	}
	one, oneKey, _ := b[:1].PEM()
	_, otherKey, _ := b[1:].PEM()
	for name, in := range map[string][2][]byte{
		"no keys": {certs, nil}, "no certificates": {nil, keys}, "a key too few": {certs, oneKey}, "another's key": {one, otherKey},
		"a key for a certificate": {oneKey, one},
	} {
		if _, err := Parse(in[0], in[1]); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
