package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime of every certificate: far more than a local stack runs.
const lifetime = 30 * 24 * time.Hour

// pair is a certificate with its key, both PEM.
type pair struct{ certificate, key []byte }

// authority signs the certificates of one server.
type authority struct {
	pair

	now    time.Time
	signer *ecdsa.PrivateKey
	self   *x509.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{now: now}
	template := a.template("sluice-local", nil)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	if a.self, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the authority back: %w", err)
	}
	a.signer, a.pair = key, pair{encode("CERTIFICATE", der), keyPEM}
	return a, nil
}

// template has what all certificates have in common. Serial numbers need only
// differ within one authority.
func (a *authority) template(name string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes([]byte(rand.Text()[:16])),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    a.now.Add(-time.Hour), // clocks may differ
		NotAfter:     a.now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// server signs a certificate for the API server at these addresses.
func (a *authority) server(ips ...net.IP) (pair, error) {
	t := a.template("kube-apiserver", nil)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	t.IPAddresses = ips
	return a.sign(t)
}

// client signs a certificate for a user of these groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	t := a.template(user, groups)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(t)
}

func (a *authority) sign(t *x509.Certificate) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.self, key.Public(), a.signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", t.Subject.CommonName, err)
	}
	return pair{encode("CERTIFICATE", der), keyPEM}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
