package wiring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/functions/wiring/internal/ca"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func (s *site) served() (leaf *x509.Certificate, secret cluster.Secret) {
	s.Helper()
	secret, err := s.cluster.Secret(s.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret)
	check.OK(s, err)
	pair, err := tls.X509KeyPair(secret.Data[certEntry], secret.Data[keyEntry])
	check.OK(s, err)
	return pair.Leaf, secret
}

func TestCertificateIsMadeAtStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 3 { // replicas that start at the same time
		service := s.replica()
		group.Go(func() {
			if err := service.Background(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	s.within(func() string {
		if _, err := s.cluster.Secret(t.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret); err != nil {
			return err.Error()
		}
		return ""
	})
	cancel()
	group.Wait()
	leaf, secret := s.served()
	roots, err := s.service.certify(t.Context())
	check.OK(t, err)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool(t, roots), DNSName: s.checkerHost()}); err != nil {
		t.Error(err)
	}
	if _, ok := secret.Data[caKeysEntry]; ok || len(secret.Data) != 3 || secret.Type != cluster.TLSSecret {
		t.Errorf("the checkers' Secret has type %s and %d entries", secret.Type, len(secret.Data))
	}
	again, _ := s.served()
	if !leaf.Equal(again) {
		t.Error("a valid certificate was replaced")
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	certify := func(in time.Duration) []byte {
		s.service.now = func() time.Time { return time.Now().Add(in) }
		cert, err := s.service.certify(t.Context())
		check.OK(t, err)
		return cert
	}
	root := certify(0)
	first, _ := s.served()
	certify(ca.CertificateLife / 2)
	if now, _ := s.served(); !now.Equal(first) {
		t.Error("the certificate was renewed at half of its life")
	}
	if again := certify(ca.CertificateLife * 3 / 4); string(again) != string(root) {
		t.Error("the CA was renewed with the certificate")
	}
	second, _ := s.served()
	if second.Equal(first) {
		t.Error("the certificate was not renewed at three quarters of its life")
	}

	// CHECKER_URL has changed.
	s.service.checkerHost = "checker.example"
	certify(ca.CertificateLife * 3 / 4)
	if now, _ := s.served(); now.VerifyHostname("checker.example") != nil {
		t.Error("the certificate is not for the new host")
	}
}

func TestForeignCertificateIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	check.OK(t, s.cluster.EnsureNamespace(t.Context(), s.cfg.SystemNamespace))
	_, err := s.kube.CoreV1().Secrets(s.cfg.SystemNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: s.cfg.CheckerSecret}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{certEntry: []byte("c"), keyEntry: []byte("k"), caEntry: []byte("theirs")},
	}, metav1.CreateOptions{})
	check.OK(t, err)
	if got, err := s.service.certify(t.Context()); err != nil || string(got) != "theirs" {
		t.Errorf("CA: got %q, %v, want theirs", got, err)
	}
	if _, err := s.cluster.Secret(t.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret+"-ca"); !problem.Is(err, problem.NotFound) {
		t.Errorf("a CA was created: %v", err)
	}
}

func TestUnreadableCAIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before, err := s.service.certify(t.Context())
	check.OK(t, err)
	kept, err := s.cluster.Secret(t.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret+"-ca")
	check.OK(t, err)
	kept.Data = map[string][]byte{caEntry: kept.Data[caEntry]} // without its key
	if _, err := s.cluster.WriteSecret(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	after, err := s.service.certify(t.Context())
	if err != nil || string(after) == string(before) {
		t.Fatalf("the CA did not change: %v", err)
	}
	leaf, _ := s.served()
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool(t, after), DNSName: s.checkerHost()}); err != nil {
		t.Error(err)
	}
}
