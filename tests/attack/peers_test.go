package attack

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestForgedPeers: what checkers tell each other, told by those who are none.
func TestForgedPeers(t *testing.T) {
	t.Parallel()
	stacktest.Insides(t, "it speaks from the checkers' own addresses")
	row := attacks.Test(t, "counts at a checker's port: without a certificate, with one of another authority, of an unknown checker, from another address, "+
		"older than the last, too large, of another checker's source, with totals beyond all bounds, cut off, and by other methods",
		"403, 409, 413, 400 or 405, and the key keeps its whole burst")
	s := stacktest.New(t, world)
	rate, burst := 0.01, int64(10)
	key := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	s.Opens("hello", key) // one request at each: eight are left, once both have heard of it
	at := world.Info().Checkers[0]
	peer := heardPeer(t, "checker-1")
	real := checkersCertificate(t)
	good := counts{run: peer.run, source: peer.run + "-1", day: int64(usage.DayOf(time.Now())), prefix: key.Prefix, allowed: 1000, unpaid: 1000}
	ahead := good
	ahead.seq = 1 << 40
	with := func(change func(*counts)) []byte {
		c := ahead
		change(&c)
		return c.encode()
	}
	tries := []struct {
		what   string
		cert   *tls.Certificate
		from   string
		method string
		body   []byte
		want   int
	}{
		{"no certificate", nil, peer.host, "", ahead.encode(), 403},
		{"another authority's", foreignCertificate(t), peer.host, "", ahead.encode(), 403},
		{"an unknown checker", real, peer.host, "", with(func(c *counts) { c.run, c.source = "NOBODY", "NOBODY-1" }), 403},
		{"from another address", real, "127.0.0.99", "", ahead.encode(), 403},
		{"older than the last", real, peer.host, "", good.encode(), 409},
		{"too large", real, peer.host, "", append(ahead.encode(), make([]byte, 1<<20)...), 413},
		{"of another's source", real, peer.host, "", with(func(c *counts) { c.source = "SOMEBODY-1" }), 400},
		{"beyond all bounds", real, peer.host, "", with(func(c *counts) { c.allowed = 1 << 62 }), 400},
		{"more than it says", real, peer.host, "", with(func(c *counts) { c.unpaid = c.allowed + 1 }), 400},
		{"wants twice", real, peer.host, "", with(func(c *counts) { c.wants = 2 }), 400},
		{"of an earlier version", real, peer.host, "", append([]byte{1}, ahead.encode()[1:]...), 400},
		{"cut off", real, peer.host, "", ahead.encode()[:20], 400},
		{"nothing", real, peer.host, "", nil, 400},
		{"GET", real, peer.host, http.MethodGet, nil, 405},
		{"DELETE", nil, peer.host, http.MethodDelete, nil, 403},
	}
	for _, try := range tries {
		method := try.method
		if method == "" {
			method = http.MethodPost
		}
		res, err := speaker(t, try.from, try.cert).Do(newRequest(t, method, at+"/counts", try.body))
		if err != nil {
			t.Errorf("%s: %v", try.what, err)
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode != try.want {
			t.Errorf("%s: %d, want %d", try.what, res.StatusCode, try.want)
		}
	}
	first := stacktest.Replicas(t, world)[0]
	for i := range burst - 2 {
		if a, err := first.Check(t.Context(), s.Project+"-"+s.Env, "hello", key.Full); err != nil || a.Status != http.StatusOK {
			t.Fatalf("request %d of the burst: %d, %v", i+1, a.Status, err)
		}
	}
	row.Measured(fmt.Sprintf("%d messages", len(tries)))
}

func newRequest(t *testing.T, method, url string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	check.OK(t, err)
	return r
}

// heard is a checker as its canary names it.
type heard struct{ run, host string }

func heardPeer(t *testing.T, replica string) heard {
	t.Helper()
	snap, err := stacktest.Store(t, world).Collection("counters").Doc("canary." + replica).Get(t.Context())
	check.OK(t, err)
	run, _ := snap.Data()["run"].(string)
	address, _ := snap.Data()["address"].(string)
	host, _, err := net.SplitHostPort(address)
	if err != nil || run == "" {
		t.Fatalf("the canary of %s: %v, %v", replica, snap.Data(), err)
	}
	return heard{run: run, host: host}
}

// counts is one key's, as checkers say it to each other.
type counts struct {
	run, source     string
	seq             uint64
	day             int64
	prefix          string
	wants           byte // 1: it holds too little of a hard quota
	allowed, unpaid uint64
}

func (c counts) encode() []byte {
	b := []byte{2}
	for _, name := range []string{c.run, c.source} {
		b = append(append(b, byte(len(name))), name...)
	}
	b = binary.AppendUvarint(b, c.seq)
	b = binary.AppendVarint(b, c.day)
	b = append(append(b, c.prefix...), 0, c.wants)
	b = binary.AppendUvarint(b, c.allowed)
	return binary.AppendUvarint(b, c.unpaid)
}

// speaker speaks from an address, with a certificate or without.
func speaker(t *testing.T, from string, cert *tls.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func checkersCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	dir := filepath.Dir(world.Info().CheckerCA)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	check.OK(t, err)
	return &cert
}

// foreignCertificate is for the checkers' name, by an authority of the attacker's own.
func foreignCertificate(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	name, err := url.Parse(world.Info().CheckerURL)
	check.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(name.Hostname())}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.OK(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
