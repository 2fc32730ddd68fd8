// Package registry checks references to container images, and resolves their tags to digests. A
// rollback then deploys the same image, even if the tag has moved (promise D5). No other package
// calls registries.
//
// The package calls a registry without credentials, or with those of the process's own container
// configuration. A caller that may deploy chooses the registry's name. So the package does not
// call a registry at a loopback, link-local or private address, unless a setting allows it. It
// checks the address of each connection, so a redirect or a second DNS answer does not help.
// The restriction covers only this process: Kubernetes pulls images on its own.
//
// A registry's certificate is verified by the system's authorities and those of
// REGISTRY_CA_FILE. What fails is said in the history, and logged with the registry's name.
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

// patience bounds one look-up, all its requests together: a deploy does not wait
// longer for a registry.
const patience = 3 * time.Second

// errPrivate is why a registry is not asked.
var errPrivate = errors.New("the registry's address is not a public one")

// Resolver resolves tags.
type Resolver struct {
	client   http.RoundTripper
	keychain authn.Keychain
	private  bool
	closing  func()
	log      *slog.Logger
}

// Access is what whoever resolves tags reads from its environment.
type Access struct {
	// AllowPrivate lets tags be resolved by registries at loopback, link-local and private
	// addresses too. Whoever may deploy can then make this process send requests there.
	AllowPrivate bool `env:"REGISTRY_ALLOW_PRIVATE, default=false"`

	// CAFile has the authorities, PEM, that vouch for registries' certificates besides the
	// system's, e.g. "/var/run/sluice/registry-ca/ca.crt". It is read at start; a missing file
	// adds none.
	CAFile string `env:"REGISTRY_CA_FILE"`
}

// New makes a resolver. It asks registries at loopback, link-local and private addresses
// only where access allows it, and then also over plain HTTP.
func New(access Access, log *slog.Logger) (*Resolver, error) {
	roots, err := outbound.Authorities(access.CAFile)
	if err != nil {
		return nil, fmt.Errorf("REGISTRY_CA_FILE: %w", err)
	}
	dialer := &net.Dialer{Timeout: patience}
	if !access.AllowPrivate {
		dialer.Control = publicOnly
	}
	base := &http.Transport{ // no proxy: its address would be the one that is checked
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: patience, ResponseHeaderTimeout: patience, IdleConnTimeout: time.Minute, MaxIdleConns: 16,
	}
	return &Resolver{
		client: span.Transport(base, "registry", false), keychain: authn.DefaultKeychain, private: access.AllowPrivate, closing: base.CloseIdleConnections, log: log,
	}, nil
}

// Resolve gives the digest that an image reference means right now, e.g.
// "sha256:9f86…"; one that is in the reference already is taken from there. When
// the registry cannot be asked within three seconds, digest is "" and note says so,
// for the history: the tag is then deployed as it is. It never fails.
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

// registryOf is where an image is, e.g. "registry.example.com:5000"; "" where that cannot be
// read.
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

// Close ends idle connections.
func (r *Resolver) Close() { r.closing() }

// publicOnly refuses a connection to an address that is not public; net calls it
// with the address after DNS.
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

// public tells whether an address is one of the internet's. Of IPv6 that is what is
// given out to the internet today: outside of it are, among others, forms that wrap
// an IPv4 address ("::127.0.0.1", NAT64's 64:ff9b::/96).
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

// special are ranges that are global by their form, but which lead inside or wrap an
// IPv4 address that might.
func special() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"), // carriers' and clouds' own
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("2001::/23"), // protocols' own, Teredo's among them
		netip.MustParsePrefix("2002::/16"), // 6to4
	}
}

// why tells a person in a few words, without what a registry put into its answer.
func why(err error) string {
	var dns *net.DNSError
	var answer *transport.Error
	switch {
	case errors.Is(err, errPrivate):
		return "the registry could not be asked: " + errPrivate.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the registry did not answer in time"
	case errors.As(err, &dns):
		return "the registry's name was not found"
	case untrusted(err) != "": // whatever it has then answered over plain HTTP
		return "the registry's certificate is not trusted"
	case errors.As(err, &answer):
		return fmt.Sprintf("the registry answered %d", answer.StatusCode)
	}
	return "the registry did not answer"
}

// untrusted is what is wrong with a registry's certificate; "" when something else is. Other
// causes are not logged: they can hold what a registry has answered.
func untrusted(err error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate.Err.Error()
	}
	return ""
}
