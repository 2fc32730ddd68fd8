package outbound

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Authorities returns the certificate authorities of the system and those in a PEM file. An empty
// name or a missing file adds none: the file may be mounted later.
func Authorities(file string) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if file == "" {
		return roots, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // path from the configuration
	if errors.Is(err, fs.ErrNotExist) {
		return roots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificate authorities: no certificate in %s", file)
	}
	return roots, nil
}
