package wiring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/cluster/clustertest"
)

// overTLS has the site's routes on Traefik's entry point for https, which has no TLS of
// its own, and its one app at a host.
func (s *site) overTLS(host, routeTLS string) {
	s.Helper()
	var err error
	s.cfg.IngressURL, s.cfg.EntryPoints, s.cfg.RouteTLS = clustertest.SecureIngress(s.T), []string{"websecure"}, routeTLS
	s.cfg.IngressCAFile = filepath.Join(s.TempDir(), "ca.crt")
	s.cfg.ProofPatience = time.Second
	s.cluster, err = cluster.Open(cluster.Options{
		Kubeconfig: clustertest.Kubeconfig(s.T), EntryPoints: s.cfg.EntryPoints, RouteTLS: s.cfg.RouteTLS, CheckerURL: s.cfg.CheckerURL,
	})
	if err != nil {
		s.Fatal(err)
	}
	s.service = s.replica()
	if s.app().Host != host {
		s.ref = s.makeAppAt("shop", host)
	}
}

// keep puts a certificate into a Secret of the app's namespace, as cert-manager does.
func (s *site) keep(name string, c tls.Certificate) {
	s.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		s.Fatal(err)
	}
	secret := &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: core.SecretTypeTLS, Data: map[string][]byte{
		core.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		core.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
	secrets := s.kube.CoreV1().Secrets(s.ref.Namespace)
	if _, err = secrets.Update(s.Context(), secret, metav1.UpdateOptions{}); err != nil {
		_, err = secrets.Create(s.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// byDefault makes the certificate of a Secret the one that Traefik serves where it has
// no better one.
func (s *site) byDefault(secret string) {
	s.Helper()
	kind := middlewareKind()
	kind.Resource = "tlsstores"
	stores := s.dynamic.Resource(kind).Namespace(s.ref.Namespace)
	_, err := stores.Create(s.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "traefik.io/v1alpha1", "kind": "TLSStore", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"defaultCertificate": map[string]any{"secretName": secret}},
	}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { // there may be one in the whole cluster
		if err := stores.Delete(context.WithoutCancel(s.Context()), "default", metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
}

// says ticks until the gate is in a state, with a message that has all the parts.
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

// asks is a client who trusts an authority, and names one host to find a certificate and
// one to find the app.
func (s *site) asks(authority *issuer, sni, host, key string) int {
	s.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool(s.T, authority.pem()), ServerName: sni, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.cfg.IngressURL, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
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

// TestWildcardCertificate is the way that the guide recommends: apps one label below the
// domain, and a wildcard certificate as Traefik's default. Each thing that may be wrong
// with it keeps the gate pending, and is said.
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
	s.says(app.Pending, `.traefik.default", not for the app's host.`)

	s.keep("wildcard", ours.server(from, until, "*.example.com"))
	s.byDefault("wildcard")
	s.says(app.Pending, `The ingress's certificate is for "*.example.com", not for the app's host.`)

	s.keep("wildcard", ours.server(from, until, "*.apps.example.com"))
	s.says(app.Pending, `The ingress's certificate is signed by "CN=Our CA", an authority that is not known here.`)

	if err := os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.settles(app.Engaged, "")
	host := s.app().Host
	if status := s.asks(ours, host, host, "good"); status != http.StatusOK {
		t.Errorf("a client with a key gets %d", status)
	}
	// The certificate is good for other hosts too: the gate goes by the host that is asked for.
	for sni, asked := range map[string][]string{
		host:                     {host, strings.ToUpper(host), host + ".", host + ":443"},
		"other.apps.example.com": {host, strings.ToUpper(host), host + "."},
	} {
		for _, h := range asked {
			if status := s.asks(ours, sni, h, "bad"); status != http.StatusUnauthorized {
				t.Errorf("SNI %s, Host %s: a client without a key gets %d", sni, h, status)
			}
		}
	}

	// One that runs out later does not open the gate, and is said.
	s.keep("wildcard", ours.server(from, now.AddDate(0, 0, -1), "*.apps.example.com"))
	s.service.proofs.mu.Lock()
	s.service.proofs.next[s.ref] = now.Add(-time.Second)
	s.service.proofs.mu.Unlock()
	s.says(app.Engaged, "The ingress's certificate has expired at ")
}

// TestCertificateOfANamespace: each environment has a certificate of its own, in a Secret
// of its namespace that its apps' routes name.
func TestCertificateOfANamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ours := newIssuer(t, "Our CA", time.Now().AddDate(0, 1, 0))
	s.overTLS(s.app().Host, "")
	if err := os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.tick()
	s.serveApp()
	s.serveChecker()
	s.turn(true)
	s.says(app.Pending, "certificate") // the entry point has none, nor has the route

	_, domain, _ := strings.Cut(s.app().Host, ".")
	s.keep("apps-tls", ours.server(time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), "*."+domain))
	s.overTLS(s.app().Host, "secret:apps-tls")
	if err := os.WriteFile(s.cfg.IngressCAFile, ours.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.settles(app.Engaged, "")
	if status := s.asks(ours, s.app().Host, s.app().Host, "bad"); status != http.StatusUnauthorized {
		t.Errorf("a client without a key gets %d", status)
	}
}
