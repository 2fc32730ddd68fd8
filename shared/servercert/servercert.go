// Package servercert serves TLS with a certificate that is read from mounted files,
// and read again when they change (promise G14). Those who hold the same certificate
// recognize each other by it.
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

// recheck is how often, at most, a handshake looks whether the certificate's
// files have changed.
const recheck = 5 * time.Second

// Certificate serves the key pair in a directory and reads it again when its
// files change, so that a renewal needs no restart.
type Certificate struct {
	dir string
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	current held
	looked  time.Time
	written [2]time.Time // of the files that it was read from
}

// held is what the files hold.
type held struct {
	pair  *tls.Certificate
	proof checkers.ProofKey // of pair's private key
	roots *x509.CertPool    // who vouches for it; nil when the directory does not say
}

// Open reads the certificate in dir, tls.crt and tls.key, and ca.crt if there is one. It
// fails when there is no certificate to begin with.
func Open(dir string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{dir: dir, now: now, log: log}
	if _, err := c.get(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config serves the certificate over HTTP/2 and HTTP/1.1.
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

// Client reaches others that hold the same certificate, and shows it to them.
func (c *Certificate) Client() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // Recognize verifies, by what the files hold at that time
		VerifyConnection:   func(s tls.ConnectionState) error { return c.Recognize(s.PeerCertificates) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, err := c.get()
			return now.pair, err
		},
	}
}

// Recognize fails unless a chain is that of one who holds the same certificate: for the
// same name, by an authority in ca.crt. Renewed, it may be another key's.
func (c *Certificate) Recognize(chain []*x509.Certificate) error {
	own, err := c.get()
	switch {
	case err != nil:
		return err
	case own.roots == nil:
		return errors.New("no ca.crt beside the certificate")
	case len(chain) == 0:
		return errors.New("no certificate was shown")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: own.roots, Intermediates: between, CurrentTime: c.now(), DNSName: nameOf(own.pair.Leaf),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // it is a server's that asks
	})
	return err
}

// nameOf is whom a certificate is for. One that is for nobody is given a name that nobody has.
func nameOf(leaf *x509.Certificate) string {
	switch {
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return "nobody.invalid"
}

// ProofKey is what the server proves with that it has the certificate's private key.
func (c *Certificate) ProofKey() (checkers.ProofKey, error) {
	now, err := c.get()
	return now.proof, err
}

// get gives what the files hold. Where that can't be read (it may be half written), what
// they held before serves on.
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
			return held{}, fmt.Errorf("load the server's certificate: %w", err)
		}
		c.log.Error("reload certificate failed", "error", err)
	}
	return c.current, nil
}

// read takes in the files, if they have changed.
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

// load reads the files in a directory.
func load(dir string, authority bool) (held, error) {
	var text [3][]byte
	for i, name := range [...]string{"tls.crt", "tls.key", "ca.crt"} {
		if name == "ca.crt" && !authority {
			continue
		}
		var err error
		if text[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil { //nolint:gosec // where the certificate is mounted, by configuration
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
