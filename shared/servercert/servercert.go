// Package servercert serves TLS with a certificate that is read from mounted files,
// and read again when they change (promise G14).
package servercert

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/gateproof"
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
	pair    *tls.Certificate
	proof   gateproof.Key // of pair's private key
	looked  time.Time
	written time.Time // of the file that pair was read from
}

// Open reads the certificate in dir, tls.crt and tls.key. It fails when there is none to
// begin with.
func Open(dir string, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{dir: dir, now: now, log: log}
	if _, _, err := c.get(); err != nil {
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
			pair, _, err := c.get()
			return pair, err
		},
	}
}

// ProofKey is what the server proves with that it has the certificate's private key.
func (c *Certificate) ProofKey() (gateproof.Key, error) {
	_, key, err := c.get()
	return key, err
}

// get gives the current pair. Where a new one can't be read (it may be half
// written), the old one serves on.
func (c *Certificate) get() (*tls.Certificate, gateproof.Key, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.pair != nil && now.Sub(c.looked) < recheck {
		return c.pair, c.proof, nil
	}
	c.looked = now
	if err := c.read(); err != nil {
		if c.pair == nil {
			return nil, gateproof.Key{}, fmt.Errorf("load the server's certificate: %w", err)
		}
		c.log.Error("reload certificate failed", "error", err)
	}
	return c.pair, c.proof, nil
}

// read takes in the files, if they have changed.
func (c *Certificate) read() error {
	file := filepath.Join(c.dir, "tls.crt")
	info, err := os.Stat(file)
	if err != nil || c.pair != nil && info.ModTime().Equal(c.written) {
		return err
	}
	cert, err := os.ReadFile(file) //nolint:gosec // where the certificate is mounted, by configuration
	if err != nil {
		return err
	}
	private, err := os.ReadFile(filepath.Join(c.dir, "tls.key"))
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return err
	}
	proof, err := gateproof.KeyOf(private)
	if err != nil {
		return err
	}
	c.pair, c.proof, c.written = &pair, proof, info.ModTime()
	return nil
}
