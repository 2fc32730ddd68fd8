package wiring

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, name string, until time.Time) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.cert, i.key = i.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: until.AddDate(-1, 0, 0), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return i
}

func (i *issuer) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(i.t, err)
	c.SerialNumber = big.NewInt(1)
	by, byKey := i.cert, i.key
	if by == nil {
		by, byKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), byKey)
	check.OK(i.t, err)
	signed, err := x509.ParseCertificate(der)
	check.OK(i.t, err)
	return signed, key
}

func (i *issuer) server(from, until time.Time, names ...string) tls.Certificate {
	i.t.Helper()
	cert, key := i.sign(&x509.Certificate{
		DNSNames: names, NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (i *issuer) file() string {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "ca.crt")
	check.OK(i.t, os.WriteFile(file, i.pem(), 0o600))
	return file
}

func (i *issuer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw})
}

func TestCertificateErrorsAreReported(t *testing.T) {
	t.Parallel()
	const host = "hello-shop-prod.apps.example.com"
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	known := newIssuer(t, "Our CA", day(100))
	gone := newIssuer(t, "Former CA", day(-1))
	with := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	nobody := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("none")
	}}
	tests := []struct {
		name    string
		server  *tls.Config // nil without TLS
		trusted string      // INGRESS_CA_FILE
		want    string      // message, "" if the gate is proven
	}{
		{"a wildcard of ours", with(known.server(day(-1), day(1), "*.apps.example.com")), known.file(), ""},
		{
			"an authority that nobody knows", with(known.server(day(-1), day(1), host)), gone.file(),
			`The ingress's certificate is signed by the unknown authority "CN=Our CA". Add it to INGRESS_CA_FILE.`,
		},
		{
			"the system's authorities alone", with(known.server(day(-1), day(1), host)), "",
			`The ingress's certificate is signed by the unknown authority "CN=Our CA". Add it to INGRESS_CA_FILE.`,
		},
		{
			"a missing file", with(known.server(day(-1), day(1), host)), filepath.Join(t.TempDir(), "none"),
			`The ingress's certificate is signed by the unknown authority "CN=Our CA". Add it to INGRESS_CA_FILE.`,
		},
		{
			"expired", with(known.server(day(-2), day(-1), host)), known.file(),
			"The ingress's certificate expired at 2026-01-01T03:04:05Z. Renew it.",
		},
		{
			"not valid yet", with(known.server(day(1), day(2), host)), known.file(),
			"The ingress's certificate is not valid before 2026-01-03T03:04:05Z.",
		},
		{
			"signed by one that has expired", with(gone.server(day(-1), day(1), host)), gone.file(),
			`The certificate of "CN=Former CA", which signed the ingress's certificate, expired at 2026-01-01T03:04:05Z. Renew it.`,
		},
		{
			"a wildcard does not reach two labels down", with(known.server(day(-1), day(1), "*.example.com")), known.file(),
			`The ingress's certificate is for "*.example.com", not for the app's host. Use a certificate for the app's host.`,
		},
		{
			"many names, one of them odd", with(known.server(day(-1), day(1), "a.example.com", "b\x1b[31m", "c", "d", "e")), known.file(),
			`The ingress's certificate is for "a.example.com", "b\x1b[31m", "c" and 2 more, not for the app's host. Use a certificate for the app's host.`,
		},
		{
			"for nothing", with(known.server(day(-1), day(1))), known.file(),
			"The ingress's certificate is for no host, not for the app's host. Use a certificate for the app's host.",
		},
		{"no certificate", nobody, known.file(), "The ingress rejects the TLS handshake for the app's host (tls: internal error). Check its certificate for this host."},
		{"no TLS", nil, known.file(), "The ingress responds to an https request without TLS. Check the port in INGRESS_URL."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(checkers.ProofHeader, checkers.ProofKey{}.SignProof(r.Header.Get(checkers.NonceHeader), "shop-prod/hello"))
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write(denial.New(problem.InvalidKey).Body())
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			if tt.server != nil {
				s.Listener = tls.NewListener(s.Listener, tt.server)
			}
			s.Start()
			t.Cleanup(s.Close)
			_, address, _ := strings.Cut(s.URL, "//")
			in, err := newIngress("https://"+address, tt.trusted)
			check.OK(t, err)
			in.now, in.proofKeys = func() time.Time { return now }, &proofKeys{known: 1}
			got := in.probe(t.Context(), probeRequest{App: app.App{Name: "hello", Namespace: "shop-prod", Host: host}}, proveEngaged)
			if tt.want == "" {
				if !got.proves(proveEngaged) {
					t.Errorf("got %+v, want a proof", got)
				}
				return
			}
			if got.kind != untrusted || got.message() != tt.want || got.proves(proveEngaged) || got.proves(proveReleased) || got.passes() {
				t.Errorf("got  %+v\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAuthoritiesAreReloaded(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	later := newIssuer(t, "Our CA", time.Now().AddDate(0, 0, 1))
	certificate := later.server(time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), "hello.example.com")
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	in, err := newIngress(s.URL, file)
	check.OK(t, err)
	for _, step := range []struct {
		text []byte
		want kind
	}{{nil, untrusted}, {later.pem(), other}, {[]byte("none"), untrusted}, {later.pem(), other}} {
		if step.text != nil {
			check.OK(t, os.WriteFile(file, step.text, 0o600))
		}
		if got := in.probe(t.Context(), probeRequest{App: app.App{Host: "hello.example.com"}}, proveReleased); got.kind != step.want || got.message() == "" {
			t.Errorf("with %.20q in the file: %+v", step.text, got)
		}
	}
	check.OK(t, os.WriteFile(file, []byte("none"), 0o600))
	if _, err := newIngress(s.URL, file); err == nil {
		t.Error("a file without a certificate: got no error")
	}
}

// overTLS moves the app to a host, and the routes to Traefik's https entry point, which has no TLS
// configuration.
func (s *site) overTLS(host, routeTLS string) {
	s.Helper()
	var err error
	s.cfg.IngressURL, s.cfg.EntryPoints, s.cfg.RouteTLS = clustertest.SecureIngress(s.T), []string{"websecure"}, routeTLS
	s.cfg.IngressCAFile = filepath.Join(s.TempDir(), "ca.crt")
	s.cfg.ProofPatience = time.Second
	s.cluster, err = cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(s.T), Routes: &s.cfg.Routes, CheckerURL: s.cfg.CheckerURL})
	check.OK(s, err)
	s.service = s.replica()
	if s.app().Host != host {
		s.ref = s.makeAppAt("shop", host)
	}
}

func (s *site) keep(name string, c tls.Certificate) {
	s.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	check.OK(s, err)
	secret := &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: core.SecretTypeTLS, Data: map[string][]byte{
		core.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		core.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
	secrets := s.kube.CoreV1().Secrets(s.ref.Namespace)
	if _, err = secrets.Update(s.Context(), secret, metav1.UpdateOptions{}); err != nil {
		_, err = secrets.Create(s.Context(), secret, metav1.CreateOptions{})
	}
	check.OK(s, err)
}

func (s *site) byDefault(secret string) {
	s.Helper()
	kind := middlewareKind()
	kind.Resource = "tlsstores"
	stores := s.dynamic.Resource(kind).Namespace(s.ref.Namespace)
	_, err := stores.Create(s.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "traefik.io/v1alpha1", "kind": "TLSStore", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"defaultCertificate": map[string]any{"secretName": secret}},
	}}, metav1.CreateOptions{})
	check.OK(s, err)
	s.Cleanup(func() { // only one may exist in the cluster
		if err := stores.Delete(context.WithoutCancel(s.Context()), "default", metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
}

func (s *site) says(state app.GateState, parts ...string) {
	s.Helper()
	s.within(func() string {
		s.tick()
		got := s.app().Gate
		for _, part := range parts {
			if got.State != state || !strings.Contains(got.Message, part) {
				return "gate is " + string(got.State) + " " + got.Message + ", want " + string(state) + " " + part
			}
		}
		return ""
	})
}

// asks calls the ingress as a client that trusts an authority, with separate hosts for SNI and for
// the request.
func (s *site) asks(authority *issuer, sni, host, key string) int {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool(s.T, authority.pem()), ServerName: sni, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.cfg.IngressURL, http.NoBody)
	check.OK(s, err)
	req.Host = host
	req.Header.Set("X-Api-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		s.Error(err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestWildcardCertificate follows the guide: apps one label below the domain, and a default
// wildcard certificate. Each mistake in the certificate keeps the gate pending, with a message.
func TestWildcardCertificate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	now := time.Now()
	ours := newIssuer(t, "Our CA", now.AddDate(0, 1, 0))
	from, until := now.AddDate(0, 0, -2), now.AddDate(0, 0, 2)
	s.overTLS("shop-"+s.ref.Namespace+".apps.example.com", "default")
	s.tick()
	s.serveApp()
	s.serveChecker()
	s.turn(true)
	s.says(app.Pending, `.traefik.default", not for the app's host. Use a certificate for the app's host.`)

	s.keep("wildcard", ours.server(from, until, "*.example.com"))
	s.byDefault("wildcard")
	s.says(app.Pending, `The ingress's certificate is for "*.example.com", not for the app's host. Use a certificate for the app's host.`)

	s.keep("wildcard", ours.server(from, until, "*.apps.example.com"))
	s.says(app.Pending, `The ingress's certificate is signed by the unknown authority "CN=Our CA". Add it to INGRESS_CA_FILE.`)

	check.OK(t, os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600))
	s.settles(app.Engaged, "")
	host := s.app().Host
	if status := s.asks(ours, host, host, "good"); status != http.StatusOK {
		t.Errorf("status with a key: got %d, want 200", status)
	}
	// The gate uses the requested host, not the certificate's.
	for sni, asked := range map[string][]string{
		host:                     {host, strings.ToUpper(host), host + ".", host + ":443"},
		"other.apps.example.com": {host, strings.ToUpper(host), host + "."},
	} {
		for _, h := range asked {
			if status := s.asks(ours, sni, h, "bad"); status != http.StatusUnauthorized {
				t.Errorf("SNI %s, Host %s: status without a key: got %d, want 401", sni, h, status)
			}
		}
	}

	// An expired certificate does not open the gate, and is reported.
	s.keep("wildcard", ours.server(from, now.AddDate(0, 0, -1), "*.apps.example.com"))
	s.service.schedule.mu.Lock()
	s.service.schedule.every = 1 // with each resync, until the ingress has the new certificate
	s.service.schedule.next[s.ref] = now.Add(-time.Second)
	s.service.schedule.mu.Unlock()
	s.says(app.Engaged, "The ingress's certificate expired at ")
}

func TestCertificateOfANamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ours := newIssuer(t, "Our CA", time.Now().AddDate(0, 1, 0))
	s.overTLS(s.app().Host, "")
	check.OK(t, os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600))
	s.tick()
	s.serveApp()
	s.serveChecker()
	s.turn(true)
	s.says(app.Pending, "certificate") // neither the entry point nor the route has one

	_, domain, _ := strings.Cut(s.app().Host, ".")
	s.keep("apps-tls", ours.server(time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), "*."+domain))
	s.overTLS(s.app().Host, "secret:apps-tls")
	check.OK(t, os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600))
	s.settles(app.Engaged, "")
	if status := s.asks(ours, s.app().Host, s.app().Host, "bad"); status != http.StatusUnauthorized {
		t.Errorf("status without a key: got %d, want 401", status)
	}
}
