package servercert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/tests/check"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func write(t *testing.T, dir string, serial int64, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: start.Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.OK(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check.OK(t, err)
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: der}} {
		file := filepath.Join(dir, name)
		check.OK(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		check.OK(t, os.Chtimes(file, at, at))
	}
}

// serial returns the serial number of the certificate in a handshake.
func serial(t *testing.T, c *tls.Config) int64 {
	t.Helper()
	pair, err := c.GetCertificate(nil)
	check.OK(t, err)
	return pair.Leaf.SerialNumber.Int64()
}

func proofKey(t *testing.T, c *Certificate) checkers.ProofKey {
	t.Helper()
	k, err := c.ProofKey()
	check.OK(t, err)
	return k
}

// TestRenewal tests that a changed certificate is served after recheck, unless it cannot be read.
func TestRenewal(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), start
	clock := func() time.Time { return now }
	if _, err := Open(dir, clock, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("Open without a certificate: got no error")
	}
	write(t, dir, 1, start)
	cert, err := Open(dir, clock, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	c, first := cert.Config(), proofKey(t, cert)
	if got := serial(t, c); got != 1 {
		t.Errorf("serial: got %d, want 1", got)
	}
	write(t, dir, 2, start.Add(time.Second))
	if got := serial(t, c); got != 1 {
		t.Errorf("serial before recheck: got %d, want 1", got)
	}
	now = now.Add(recheck)
	if got := serial(t, c); got != 2 {
		t.Errorf("serial after the change: got %d, want 2", got)
	}
	if proofKey(t, cert) == first {
		t.Error("the proof key did not change with the private key")
	}
	check.OK(t, os.WriteFile(filepath.Join(dir, "tls.key"), []byte("half a key"), 0o600))
	later := start.Add(time.Minute)
	check.OK(t, os.Chtimes(filepath.Join(dir, "tls.crt"), later, later))
	now = now.Add(recheck)
	if got := serial(t, c); got != 2 {
		t.Errorf("serial after an invalid change: got %d, want 2", got)
	}
}
