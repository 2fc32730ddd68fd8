package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/netip"
	"time"
)

// Name is in every certificate beside the host: a proxy that reaches the checkers by
// another address than that can verify them by it.
const Name = "sluice-checker"

// Issue makes a server certificate for Name and a host, a DNS name or an IP address,
// and its key, both as PEM.
func (b Bundle) Issue(host string, now time.Time) (cert, key []byte, err error) {
	by, err := b.signer(now)
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "sluice-checker"},
		NotBefore:    now.Add(-skew).UTC(), NotAfter: earlier(now.Add(CertificateLife), by.cert.NotAfter).UTC(),
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
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the certificate's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: signed.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// Good tells whether a certificate can stay in use: it is for the host and Name, its key is
// its own, it is not past two thirds of its life, and the authority that signs now
// has signed it.
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
