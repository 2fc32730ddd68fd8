// Package authorities gives who may vouch for the certificates of others: the system's own
// authorities, and those of a private one that a setting names.
package authorities

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Read gives the system's authorities, and those of a PEM file besides. The file may be
// missing, so that it can be mounted from what is made later; then, and without a name,
// it adds none.
func Read(file string) (*x509.CertPool, error) {
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
