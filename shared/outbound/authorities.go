package outbound

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Authorities returns the certificate authorities of the system and those of a PEM file. An empty
// name or a missing file adds none, so that the file can be mounted before it exists.
func Authorities(file string) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if file == "" {
		return roots, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the setting's own
	if errors.Is(err, fs.ErrNotExist) {
		return roots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: no certificate in %s", file)
	}
	return roots, nil
}
