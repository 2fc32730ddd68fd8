package wiring

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

// maxNames is how many of a certificate's names a message lists.
const maxNames = 3

// readRoots gives who may vouch for an app's certificate: the system's authorities, and
// those of a PEM file besides. The file may be missing, so that it can be mounted from
// what is made later; then, and without a name, it adds none.
func readRoots(file string) (*x509.CertPool, error) {
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

// distrust tells an operator what is wrong with an https ingress whose certificate or
// whose TLS has failed with err, "" when something else has.
func distrust(err error, now time.Time) string {
	var (
		certificate *tls.CertificateVerificationError
		plain       tls.RecordHeaderError
		alert       *net.OpError
	)
	switch {
	case errors.As(err, &certificate) && len(certificate.UnverifiedCertificates) > 0:
		return fault(certificate, now)
	case errors.As(err, &plain):
		return "The ingress answers a request for https without TLS."
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Sprintf("The ingress refuses the TLS handshake for the app's host (%v).", alert.Err)
	}
	return ""
}

// fault tells what is wrong with a certificate. What it says of itself is quoted.
func fault(failed *tls.CertificateVerificationError, now time.Time) string {
	var (
		other   x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	leaf := failed.UnverifiedCertificates[0]
	switch {
	case errors.As(failed, &other):
		return "The ingress's certificate is for " + names(leaf) + ", not for the app's host."
	case errors.As(failed, &unknown):
		return fmt.Sprintf("The ingress's certificate is signed by %.100q, an authority that is not known here.", leaf.Issuer.String())
	case errors.As(failed, &invalid) && invalid.Reason == x509.Expired:
		whose := "The ingress's certificate"
		if !invalid.Cert.Equal(leaf) {
			whose = fmt.Sprintf("The certificate of %.100q, which has signed the ingress's,", invalid.Cert.Subject.String())
		}
		if now.Before(invalid.Cert.NotBefore) {
			return whose + " is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339) + "."
		}
		return whose + " has expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339) + "."
	}
	return fmt.Sprintf("The ingress's certificate cannot be verified: %.200q.", failed.Err.Error())
}

// names lists what a certificate is for, the first few of many.
func names(c *x509.Certificate) string {
	var all []string
	for _, name := range c.DNSNames {
		all = append(all, fmt.Sprintf("%.100q", name))
	}
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	switch more := len(all) - maxNames; {
	case len(all) == 0:
		return "no host at all"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNames], ", "), more)
	}
	return strings.Join(all, ", ")
}
