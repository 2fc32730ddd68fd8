// Package registry checks references to container images, and resolves their tags to digests. With
// the digest, a rollback deploys the same image even if the tag has moved (promise D5). No other
// package calls registries.
//
// Users with deploy rights choose the registry. The package therefore rejects loopback, link-local
// and private addresses, unless [Access] allows them. It checks the address of each connection, so
// a redirect or a second DNS response cannot bypass the check. Kubernetes pulls images without this
// restriction.
package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/span"
)

const patience = 3 * time.Second

var errPrivate = errors.New("the registry's address is not public")

// Resolver resolves tags.
type Resolver struct {
	client   http.RoundTripper
	keychain authn.Keychain
	private  bool
	closing  func()
	log      *slog.Logger
}

// Access is the configuration of a [Resolver].
type Access struct {
	// AllowPrivate allows registries at loopback, link-local and private addresses. Users with
	// deploy rights can then make this process send requests there.
	AllowPrivate bool `env:"REGISTRY_ALLOW_PRIVATE, default=false"`

	// CAFile is a PEM file of CA certificates to trust for registries, in addition to the
	// system's, e.g. "/var/run/sluice/registry-ca/ca.crt". It is read at startup; a missing file
	// adds none.
	CAFile string `env:"REGISTRY_CA_FILE"`
}

// New returns a resolver. If private addresses are allowed, it also uses plain HTTP for them.
func New(access Access, log *slog.Logger) (*Resolver, error) {
	roots, err := outbound.Authorities(access.CAFile)
	if err != nil {
		return nil, fmt.Errorf("REGISTRY_CA_FILE: %w", err)
	}
	dialer := &net.Dialer{Timeout: patience}
	if !access.AllowPrivate {
		dialer.Control = publicOnly
	}
	base := &http.Transport{ // no proxy: its address would be checked instead
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, IdleConnTimeout: time.Minute, MaxIdleConns: 16,
	}
	return &Resolver{
		client: span.Transport(base, "registry", false), keychain: authn.DefaultKeychain, private: access.AllowPrivate, closing: base.CloseIdleConnections, log: log,
	}, nil
}

// Resolve returns the current digest of an image reference, e.g. "sha256:9f86…". If the registry
// fails or does not respond within 3 seconds, Resolve returns a note for the deployment history
// instead; the tag is then deployed without a digest.
func (r *Resolver) Resolve(ctx context.Context, image string) (digest, note string) {
	if _, d, pinned := strings.Cut(image, "@"); pinned {
		return d, ""
	}
	d, err := r.resolve(ctx, image)
	if err != nil {
		r.log.WarnContext(ctx, "resolve tag failed", "registry", registryOf(image), "reason", cmp.Or(untrusted(err), why(err)))
		return "", "The tag was deployed without a digest, because " + why(err) + "."
	}
	return d, ""
}

func registryOf(image string) string {
	ref, err := name.ParseReference(image)
	if err != nil {
		return ""
	}
	return ref.Context().RegistryStr()
}

func (r *Resolver) resolve(ctx context.Context, image string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var opts []name.Option
	if r.private {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(image, opts...)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", image, err)
	}
	desc, err := remote.Head(ref, remote.WithContext(ctx), remote.WithTransport(r.client),
		remote.WithAuthFromKeychain(r.keychain), remote.WithRetryBackoff(remote.Backoff{Steps: 1}))
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", image, err)
	}
	return desc.Digest.String(), nil
}

// Close closes idle connections.
func (r *Resolver) Close() { r.closing() }

// publicOnly rejects connections to addresses that are not public. net calls it after DNS.
func publicOnly(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !public(ap.Addr().Unmap()) {
		return errPrivate
	}
	return nil
}

// public reports whether an address is on the internet. For IPv6, only 2000::/3 is public, which
// excludes forms that wrap an IPv4 address ("::127.0.0.1", NAT64's 64:ff9b::/96).
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	if a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
		return false
	}
	for _, p := range special() {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

func special() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"), // carriers and clouds
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("2001::/23"), // protocols, such as Teredo
		netip.MustParsePrefix("2002::/16"), // 6to4
	}
}

// why returns a short reason that contains no text from the registry's response.
func why(err error) string {
	var dns *net.DNSError
	var answer *transport.Error
	switch {
	case errors.Is(err, errPrivate):
		return errPrivate.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the registry did not respond in time"
	case errors.As(err, &dns):
		return "the registry's name was not found"
	case untrusted(err) != "": // takes precedence over a response over plain HTTP
		return "the registry's certificate is not trusted"
	case errors.As(err, &answer):
		return fmt.Sprintf("the registry returned status %d", answer.StatusCode)
	}
	return "the registry did not respond"
}

// untrusted returns the error text of a registry's certificate. It returns "" for other errors,
// whose text may contain parts of the response.
func untrusted(err error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate.Err.Error()
	}
	return ""
}
