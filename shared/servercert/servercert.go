// Package servercert serves TLS with a certificate that is read from mounted files,
// and read again when they change (decisions section 4).
package servercert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// recheck is how often, at most, a handshake looks whether the certificate's
// files have changed.
const recheck = 5 * time.Second

// certificate serves the key pair in a directory and reads it again when its
// files change, so that a renewal needs no restart.
type certificate struct {
	dir string
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	looked  time.Time
	written time.Time // of the file that pair was read from
}

// Config serves the certificate in dir, tls.crt and tls.key, over HTTP/2 and
// HTTP/1.1. It fails when there is none to begin with.
func Config(dir string, now func() time.Time, log *slog.Logger) (*tls.Config, error) {
	cert := &certificate{dir: dir, now: now, log: log}
	if _, err := cert.get(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.get() },
	}, nil
}

// get gives the current pair. Where a new one can't be read (it may be half
// written), the old one serves on.
func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.pair != nil && now.Sub(c.looked) < recheck {
		return c.pair, nil
	}
	c.looked = now
	file := filepath.Join(c.dir, "tls.crt")
	info, err := os.Stat(file)
	if err == nil && c.pair != nil && info.ModTime().Equal(c.written) {
		return c.pair, nil
	}
	pair, loadErr := tls.LoadX509KeyPair(file, filepath.Join(c.dir, "tls.key"))
	if err = errors.Join(err, loadErr); err != nil {
		if c.pair != nil {
			c.log.Error("changed certificate not read; the one before serves on", "error", err)
			return c.pair, nil
		}
		return nil, fmt.Errorf("load the server's certificate: %w", err)
	}
	c.pair, c.written = &pair, info.ModTime()
	return c.pair, nil
}
