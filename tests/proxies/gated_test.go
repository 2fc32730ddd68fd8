package proxies

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// host is the app's host name in the shipped files.
const host = "hello.example.com"

type gated struct {
	*stacktest.Site
	t       *testing.T
	proxy   proxy
	clients map[string]*http.Client // by protocol
}

func newGated(t *testing.T, p proxy, s *stacktest.Site, pool *x509.CertPool) *gated {
	t.Helper()
	g := &gated{Site: s, t: t, proxy: p, clients: map[string]*http.Client{}}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))
	var d net.Dialer
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: host},
			ForceAttemptHTTP2: protocol == "HTTP/2.0",
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
		}
		if protocol == "HTTP/1.1" {
			transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		t.Cleanup(transport.CloseIdleConnections)
		g.clients[protocol] = &http.Client{Transport: transport, Timeout: 60 * time.Second}
	}
	return g
}

func (g *gated) transport(t *testing.T) *http.Transport {
	t.Helper()
	transport, ok := g.clients["HTTP/1.1"].Transport.(*http.Transport)
	if !ok {
		t.Fatal("the client's transport is not an *http.Transport")
	}
	return transport
}

func (g *gated) url(path string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(g.proxy.port)) + path
}

type request struct {
	method string // GET if empty
	path   string // "/" if empty
	header http.Header
	body   []byte

	streamed bool        // without a declared length
	trailer  http.Header // after a streamed body
}

func keyed(k stacktest.Key, pairs ...string) request {
	return with(append([]string{"X-API-Key", k.Full}, pairs...)...)
}

func with(pairs ...string) request {
	r := request{header: http.Header{}}
	for i := 0; i < len(pairs); i += 2 {
		r.header[pairs[i]] = append(r.header[pairs[i]], pairs[i+1])
	}
	return r
}

func (g *gated) send(t *testing.T, protocol string, r request) stacktest.Answer {
	t.Helper()
	a, err := g.try(t, protocol, r)
	check.OK(t, err)
	return a
}

func (g *gated) try(t *testing.T, protocol string, r request) (stacktest.Answer, error) {
	t.Helper()
	if r.method == "" {
		r.method = http.MethodGet
	}
	if r.path == "" {
		r.path = "/"
	}
	var body io.Reader = bytes.NewReader(r.body)
	if r.streamed {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, g.url(r.path), body)
	check.OK(t, err)
	if r.header != nil {
		req.Header = r.header
	}
	if r.trailer != nil {
		req.Trailer, req.TransferEncoding = r.trailer.Clone(), []string{"chunked"} // even if the body is empty
	}
	res, err := g.clients[protocol].Do(req)
	if err != nil {
		return stacktest.Answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return stacktest.Answer{}, err
	}
	if res.Proto != protocol {
		t.Errorf("protocol: got %s, want %s", res.Proto, protocol)
	}
	return stacktest.Answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}, nil
}

func (g *gated) echo(t *testing.T, a stacktest.Answer) stacktest.Echo {
	t.Helper()
	var e stacktest.Echo
	if err := json.Unmarshal([]byte(a.Body), &e); err != nil || e.App == "" {
		t.Fatalf("not the app's response: %d %.300s", a.Status, a.Body)
	}
	return e
}

// denied checks the status, body and headers of a checker's denial.
func denied(t *testing.T, a stacktest.Answer, status int, code, retryAfter string) {
	t.Helper()
	want := http.Header{
		"Content-Type": {"application/json"}, "Access-Control-Allow-Origin": {"*"},
		"Access-Control-Expose-Headers": {"Retry-After"}, "Vary": {"Origin"}, "Cache-Control": {"no-store"},
	}
	if retryAfter != "" {
		want["Retry-After"] = []string{retryAfter}
	}
	if status == http.StatusUnauthorized {
		want["Www-Authenticate"] = []string{`ApiKey realm="sluice"`}
	}
	got := http.Header{}
	for name := range a.Header {
		if _, ok := want[name]; ok || name == "Retry-After" || name == "X-Sluice-Denial" || name == "Www-Authenticate" {
			got[name] = a.Header[name]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || a.Status != status {
		t.Errorf("status: got %d, want %d; headers (-want +got):\n%s", a.Status, status, diff)
	}
	if limits := a.Header.Get("RateLimit") + a.Header.Get("RateLimit-Policy"); (limits != "") != (status == http.StatusTooManyRequests) {
		t.Errorf("RateLimit headers with status %d: got %q", status, limits)
	}
	var body wire.Error
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil || body.Code != code || body.Message == "" {
		t.Errorf("body: got %q, want code %s", a.Body, code)
	}
}

const checkerName = "sluice-checker"

// certify writes a certificate for the app's host and for checkers into dir, in all formats that
// proxies need. It returns a pool with the issuer.
func certify(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host, checkerName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.OK(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check.OK(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pair := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	write(t, filepath.Join(dir, "site.crt"), string(cert))
	write(t, filepath.Join(dir, "site.key"), string(pair))
	write(t, filepath.Join(dir, "site.pem"), string(cert)+string(pair))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}
