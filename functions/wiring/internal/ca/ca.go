// Package ca is a certificate authority for the checkers' TLS certificate (promise G14).
// It does no I/O.
//
// Certificates are renewed after two thirds of their life. A new authority is trusted for [Overlap]
// before it signs, so that its certificate reaches all app namespaces first. The previous authority
// remains trusted until it expires.
package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

const (
	// Life is the life of an authority. It is long because a renewal is risky.
	Life = 10 * 365 * 24 * time.Hour

	// CertificateLife is the life of a checker's certificate.
	CertificateLife = 90 * 24 * time.Hour

	// Overlap is the time during which a new authority is trusted but does not sign.
	Overlap = 24 * time.Hour

	skew = time.Hour
)

// Authority is a CA certificate and its key.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Bundle holds all trusted authorities, the oldest first.
type Bundle []Authority

// Parse returns the bundle that [Bundle.PEM] encoded. Empty input yields an empty bundle.
func Parse(certs, keys []byte) (Bundle, error) {
	var b Bundle
	for {
		var cert, key *pem.Block
		cert, certs = pem.Decode(certs)
		key, keys = pem.Decode(keys)
		if cert == nil && key == nil {
			return b, nil
		}
		if cert == nil || key == nil {
			return nil, errors.New("numbers of certificates and keys differ")
		}
		a, err := parse(cert.Bytes, key.Bytes)
		if err != nil {
			return nil, err
		}
		b = append(b, a)
	}
}

func parse(certDER, keyDER []byte) (Authority, error) {
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return Authority{}, fmt.Errorf("parse CA certificate: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return Authority{}, errors.New("parse CA key: not a PKCS#8 key") // the cause could quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return Authority{}, errors.New("CA key does not match its certificate")
	}
	return Authority{cert: cert, key: key}, nil
}

// PEM returns the certificates and the private keys.
func (b Bundle) PEM() (certs, keys []byte, err error) {
	for _, a := range b {
		cert, key, err := encode(a.cert, a.key)
		if err != nil {
			return nil, nil, err
		}
		certs, keys = append(certs, cert...), append(keys, key...)
	}
	return certs, keys, nil
}

// Renew removes expired authorities. It adds a new one if there is none, or if the newest is past
// two thirds of its life. changed reports whether it did either.
func (b Bundle) Renew(now time.Time) (renewed Bundle, changed bool, err error) {
	for _, a := range b {
		if now.Before(a.cert.NotAfter) {
			renewed = append(renewed, a)
		}
	}
	changed = len(renewed) != len(b)
	if n := len(renewed); n > 0 && !worn(renewed[n-1].cert, now) {
		return renewed, changed, nil
	}
	a, err := newAuthority(now)
	if err != nil {
		return nil, false, err
	}
	return append(renewed, a), true, nil
}

func worn(c *x509.Certificate, now time.Time) bool {
	life := c.NotAfter.Sub(c.NotBefore)
	return !now.Before(c.NotBefore.Add(life / 3 * 2))
}

// signer returns the newest authority that has been trusted for [Overlap], or else the oldest.
func (b Bundle) signer(now time.Time) (Authority, error) {
	for i := len(b) - 1; i >= 0; i-- {
		if now.Sub(b[i].cert.NotBefore) >= skew+Overlap {
			return b[i], nil
		}
	}
	if len(b) == 0 {
		return Authority{}, errors.New("no authority")
	}
	return b[0], nil
}

func newAuthority(now time.Time) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, fmt.Errorf("generate CA key: %w", err)
	}
	t := &x509.Certificate{
		// Verifiers find the issuer by its name, so names must differ.
		Subject:   pkix.Name{CommonName: "Sluice checker CA " + rand.Text()},
		NotBefore: now.Add(-skew).UTC(), NotAfter: now.Add(Life).UTC(),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	cert, err := sign(t, t, key, key)
	return Authority{cert: cert, key: key}, err
}

func sign(t, parent *x509.Certificate, subject, issuer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &subject.PublicKey, issuer)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", t.Subject, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back %s: %w", t.Subject, err)
	}
	return cert, nil
}

// Name is a DNS name in every certificate, for proxies that call the checkers at another address.
const Name = "sluice-checker"

// Issue returns a server certificate and its key as PEM. The certificate is valid for Name and for
// host, a DNS name or an IP address.
func (b Bundle) Issue(host string, now time.Time) (cert, key []byte, err error) {
	by, err := b.signer(now)
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate certificate key: %w", err)
	}
	t := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "sluice-checker"},
		NotBefore: now.Add(-skew).UTC(), NotAfter: earlier(now.Add(CertificateLife), by.cert.NotAfter).UTC(),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{Name},
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		t.IPAddresses = append(t.IPAddresses, ip.AsSlice())
	} else if host != Name {
		t.DNSNames = append(t.DNSNames, host)
	}
	signed, err := sign(t, by.cert, private, by.key)
	if err != nil {
		return nil, nil, err
	}
	return encode(signed, private)
}

func encode(c *x509.Certificate, private *ecdsa.PrivateKey) (cert, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode certificate key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Good reports whether a certificate can remain in use: it is valid for host and Name, matches the
// key, is not past two thirds of its life, and was signed by the current signer.
func (b Bundle) Good(cert, key []byte, host string, now time.Time) bool {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil || pair.Leaf == nil || worn(pair.Leaf, now) || pair.Leaf.VerifyHostname(host) != nil || pair.Leaf.VerifyHostname(Name) != nil {
		return false
	}
	by, err := b.signer(now)
	return err == nil && bytes.Equal(pair.Leaf.RawIssuer, by.cert.RawSubject) && pair.Leaf.CheckSignatureFrom(by.cert) == nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
