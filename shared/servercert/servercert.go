// Package servercert serves TLS with a certificate from mounted files, and reloads it when they
// change (promise G14). Servers with the same certificate can authenticate each other.
package servercert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/checkers"
)

const recheck = 5 * time.Second

// Certificate is the key pair in a directory. It is reloaded when its files change.
type Certificate struct {
	dir string
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	current held
	looked  time.Time
	written [2]time.Time // modification times of the files
}

type held struct {
	pair  *tls.Certificate
	proof checkers.ProofKey // of pair's private key
	roots *x509.CertPool    // nil without ca.crt
}

// Open reads tls.crt, tls.key and, if it exists, ca.crt in dir. It returns an error if there is
// no valid certificate.
func Open(dir string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{dir: dir, now: now, log: log}
	if _, err := c.get(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the server's TLS configuration, for HTTP/2 and HTTP/1.1.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			now, err := c.get()
			return now.pair, err
		},
	}
}

// Client returns the TLS configuration for calls to servers with the same certificate.
func (c *Certificate) Client() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // Recognize verifies with the current files
		VerifyConnection:   func(s tls.ConnectionState) error { return c.VerifyPeer(s.PeerCertificates) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, err := c.get()
			return now.pair, err
		},
	}
}

// VerifyPeer returns an error unless the chain is for the same name and signed by an authority in
// ca.crt. The key may differ, since the peer may have a renewed certificate.
func (c *Certificate) VerifyPeer(chain []*x509.Certificate) error {
	own, err := c.get()
	switch {
	case err != nil:
		return err
	case own.roots == nil:
		return errors.New("no ca.crt next to the certificate")
	case len(chain) == 0:
		return errors.New("peer sent no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: own.roots, Intermediates: between, CurrentTime: c.now(), DNSName: nameOf(own.pair.Leaf),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // the client shows a server certificate
	})
	return err
}

func nameOf(leaf *x509.Certificate) string {
	switch {
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return "nobody.invalid"
}

// ProofKey returns the key with which the server proves that it has the certificate's private
// key.
func (c *Certificate) ProofKey() (checkers.ProofKey, error) {
	now, err := c.get()
	return now.proof, err
}

// get returns the current content of the files or, if they cannot be read, the previous content.
func (c *Certificate) get() (held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.current.pair != nil && now.Sub(c.looked) < recheck {
		return c.current, nil
	}
	c.looked = now
	if err := c.read(); err != nil {
		if c.current.pair == nil {
			return held{}, fmt.Errorf("load server certificate: %w", err)
		}
		c.log.Error("reload certificate failed", "error", err)
	}
	return c.current, nil
}

func (c *Certificate) read() error {
	var written [2]time.Time
	for i, name := range [...]string{"tls.crt", "ca.crt"} {
		info, err := os.Stat(filepath.Join(c.dir, name))
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		written[i] = info.ModTime()
	}
	if c.current.pair != nil && written == c.written {
		return nil
	}
	now, err := load(c.dir, !written[1].IsZero())
	if err != nil {
		return err
	}
	c.current, c.written = now, written
	return nil
}

func load(dir string, authority bool) (held, error) {
	var text [3][]byte
	for i, name := range [...]string{"tls.crt", "tls.key", "ca.crt"} {
		if name == "ca.crt" && !authority {
			continue
		}
		var err error
		if text[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil { //nolint:gosec // path from the configuration
			return held{}, err
		}
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return held{}, err
	}
	proof, err := checkers.DeriveProofKey(text[1])
	if err != nil || !authority {
		return held{pair: &pair, proof: proof}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text[2]) {
		return held{}, errors.New("no certificate in ca.crt")
	}
	return held{pair: &pair, proof: proof, roots: roots}, nil
}
