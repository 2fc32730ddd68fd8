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

func TestForgedPeers(t *testing.T) {
	t.Parallel()
	stacktest.Insides(t, "it connects from the checkers' addresses")
	row := attacks.Test(t, "counts sent to a checker: no or foreign certificate, unknown checker, other address, outdated, malformed",
		"400, 403, 405, 409 or 413; the key keeps its whole burst")
	s := stacktest.New(t, world)
	rate, burst := 0.01, int64(10)
	key := s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst}))
	s.Opens("hello", key) // counts one request at each replica; eight remain when both have exchanged counts
	at := world.Info().Checkers[0]
	peer := readPeer(t, "checker-1")
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
		{"another CA's certificate", foreignCertificate(t), peer.host, "", ahead.encode(), 403},
		{"an unknown checker", real, peer.host, "", with(func(c *counts) { c.run, c.source = "NOBODY", "NOBODY-1" }), 403},
		{"from another address", real, "127.0.0.99", "", ahead.encode(), 403},
		{"older than the last", real, peer.host, "", good.encode(), 409},
		{"too large", real, peer.host, "", append(ahead.encode(), make([]byte, 1<<20)...), 413},
		{"of another's source", real, peer.host, "", with(func(c *counts) { c.source = "SOMEBODY-1" }), 400},
		{"beyond all bounds", real, peer.host, "", with(func(c *counts) { c.allowed = 1 << 62 }), 400},
		{"more unpaid than allowed", real, peer.host, "", with(func(c *counts) { c.unpaid = c.allowed + 1 }), 400},
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
			t.Errorf("%s: got %d, want %d", try.what, res.StatusCode, try.want)
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

// peerInfo identifies a checker by its canary document.
type peerInfo struct{ run, host string }

func readPeer(t *testing.T, replica string) peerInfo {
	t.Helper()
	snap, err := stacktest.Store(t, world).Collection("counters").Doc("canary." + replica).Get(t.Context())
	check.OK(t, err)
	run, _ := snap.Data()["run"].(string)
	address, _ := snap.Data()["address"].(string)
	host, _, err := net.SplitHostPort(address)
	if err != nil || run == "" {
		t.Fatalf("canary of %s: got %v, %v", replica, snap.Data(), err)
	}
	return peerInfo{run: run, host: host}
}

// counts are one key's counts as checkers exchange them.
type counts struct {
	run, source     string
	seq             uint64
	day             int64
	prefix          string
	wants           byte // 1 if the sender needs more of a hard quota
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

// foreignCertificate returns a certificate for the checkers' address from another CA.
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
