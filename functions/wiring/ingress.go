package wiring

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
)

// ProbePath is the path of probes. If the gate is not active, the app receives the request.
const ProbePath = "/.well-known/sluice-gate"

const (
	probeTimeout = 2 * time.Second

	// maxProbeBody is larger than a denial, in bytes.
	maxProbeBody = 4096
)

// ingress requests an app's public URL through the ingress without a key, as a client would.
type ingress struct {
	scheme    string
	host      string
	port      string
	caFile    string // read for each proof, since CAs are renewed
	lookup    func(ctx context.Context, host string) ([]string, error)
	now       func() time.Time
	proofKeys *proofKeys
}

func newIngress(rawURL, caFile string) (*ingress, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("INGRESS_URL: %w", err)
	}
	if _, err := outbound.Authorities(caFile); err != nil {
		return nil, fmt.Errorf("INGRESS_CA_FILE: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return &ingress{
		scheme: u.Scheme, host: u.Hostname(), port: port, caFile: caFile,
		lookup: net.DefaultResolver.LookupHost, now: time.Now, proofKeys: &proofKeys{},
	}, nil
}

type probeRequest struct {
	app.App

	// generation is the gate's generation, which the proof must name, or "".
	generation string

	// anyGeneration accepts a proof without a generation: a checker of an earlier release or a
	// former route may respond.
	anyGeneration bool
}

func (i *ingress) probe(ctx context.Context, q probeRequest, sought proof) probeResult {
	roots, err := outbound.Authorities(i.caFile)
	if err != nil {
		return probeResult{kind: untrusted, detail: "The ingress's certificate authorities cannot be read. Check INGRESS_CA_FILE."}
	}
	r := replicas{i.addresses, func(ctx context.Context, address string) probeResult {
		return i.probeOne(ctx, net.JoinHostPort(address, i.port), q, roots)
	}}
	return r.probe(ctx, sought)
}

func (i *ingress) addresses(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return i.lookup(ctx, i.host)
}

func (i *ingress) probeOne(ctx context.Context, address string, q probeRequest, roots *x509.CertPool) probeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.Host, RootCAs: roots, Time: i.now},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.scheme+"://"+q.Host+ProbePath, http.NoBody)
	if err != nil {
		return probeResult{kind: unreachable}
	}
	nonce := checkers.NewNonce()
	req.Header.Set("User-Agent", "sluice-wiring")
	req.Header.Set(checkers.NonceHeader, nonce)
	resp, err := transport.RoundTrip(req) // follows no redirects
	if err != nil {
		return i.failedProbe(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeBody))
	if err != nil {
		return i.failedProbe(ctx, err)
	}
	got := classify(resp.StatusCode, body)
	if got.kind == refused {
		got.kind = i.proven(q, nonce, resp.Header.Get(checkers.ProofHeader))
	}
	return got
}

// proven classifies a denial by its proof.
func (i *ingress) proven(q probeRequest, nonce, proof string) kind {
	subject := q.Namespace + "/" + q.Name
	switch {
	case q.generation != "" && i.proofKeys.proven(subject+"/"+q.generation, nonce, proof):
		return refused
	case !i.proofKeys.proven(subject, nonce, proof):
		return copied
	case q.generation != "" && !q.anyGeneration:
		return stale
	}
	return refused
}

func (i *ingress) failedProbe(ctx context.Context, err error) probeResult {
	if detail := tlsMessage(err, i.now()); detail != "" {
		return probeResult{kind: untrusted, detail: detail}
	}
	if ctx.Err() != nil {
		return probeResult{kind: late}
	}
	return probeResult{kind: unreachable}
}

// kind classifies the response to a request without a key. Its value is a message for operators.
type kind string

const (
	unreachable kind = "The ingress cannot be reached. Check INGRESS_URL and the ingress."
	untrusted   kind = "untrusted" // TLS failed; the detail is the message
	// Traefik waits 30 s for the checker.
	late kind = "The ingress does not respond in time. Check that the checkers respond."

	// Responses with the gate's own bodies.
	refused       kind = "The gate still denies requests. The ingress has not applied the route yet."
	unavailable   kind = "The gate is on the route, but cannot verify keys. Check the checkers."
	misconfigured kind = "The gate is on the route, but misconfigured. Check CHECKER_URL and the ingress."

	tooMany     kind = "The ingress has more than 16 addresses, so the gate cannot be verified. Reduce the ingress's replicas."
	silent      kind = "The ingress cannot reach the checkers. Check CHECKER_URL and the network policies." // Traefik's bare 500
	unknownHost kind = "The ingress does not know the app's host, or the app returns 404 to a request without a key."
	other       kind = "The app's public URL still returns %d to a request without a key."
	copied      kind = "The response lacks the checkers' proof for the current route. The ingress has not applied the route yet, or the app copies the gate's response."
	stale       kind = "The ingress has not applied the current route yet. The previous gate still responds."

	// The gate responds, but may be bypassed.
	bypassed   kind = "The app is reachable without the gate at %s. Remove this route or put it behind the gate." //nolint:gosec // not a password
	moving     kind = "The gate is on the route. Knative has not confirmed yet that the app was removed from its public gateway."
	unsearched kind = "The gate is on the route, but Sluice cannot check the cluster for routes that bypass it. Sluice retries automatically."
)

type probeResult struct {
	kind   kind
	status int    // HTTP
	detail string // the message for untrusted, or the routes for bypassed
}

// classify identifies the gate's responses by their exact bodies: an app may return a 401 too.
func classify(status int, body []byte) probeResult {
	body = bytes.TrimSpace(body)
	for _, own := range []struct {
		kind kind
		code problem.Code
	}{{refused, problem.InvalidKey}, {unavailable, problem.GateUnavailable}, {misconfigured, problem.Misconfigured}} {
		if status == problem.FromCode(own.code).Status() && bytes.Equal(body, denial.New(own.code).Body()) {
			return probeResult{kind: own.kind, status: status}
		}
	}
	switch {
	case status == http.StatusInternalServerError && len(body) == 0:
		return probeResult{kind: silent, status: status}
	case status == http.StatusNotFound:
		return probeResult{kind: unknownHost, status: status}
	}
	return probeResult{kind: other, status: status}
}

// passes reports whether a request without a key passed the gate. A missing response proves
// nothing.
func (a probeResult) passes() bool {
	return a.kind == other || a.kind == unknownHost || a.kind == copied || a.kind == bypassed
}

// proves reports whether the result is as sought. A 500 without a body counts as a released gate:
// the app may have returned it, and the route no longer names the gate.
func (a probeResult) proves(sought proof) bool {
	switch sought {
	case proveNothing:
		return true
	case proveEngaged:
		return a.kind == refused
	case proveReleased:
		return a.kind == other || a.kind == unknownHost || a.kind == silent
	}
	return false
}

func (a probeResult) message() string {
	switch a.kind {
	case untrusted:
		return a.detail
	case bypassed:
		return fmt.Sprintf(string(bypassed), a.detail)
	case other:
		return fmt.Sprintf(string(other), a.status)
	default:
		return string(a.kind)
	}
}

func firstFew(ways []string) string {
	const most = 3
	if more := len(ways) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(ways[:most], ", "), more)
	}
	return strings.Join(ways, ", ")
}

const maxNames = 3

func tlsMessage(err error, now time.Time) string {
	var (
		certificate *tls.CertificateVerificationError
		plain       tls.RecordHeaderError
		alert       *net.OpError
	)
	switch {
	case errors.As(err, &certificate) && len(certificate.UnverifiedCertificates) > 0:
		return certificateMessage(certificate, now)
	case errors.As(err, &plain):
		return "The ingress responds to an https request without TLS. Check the port in INGRESS_URL."
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Sprintf("The ingress rejects the TLS handshake for the app's host (%v). Check its certificate for this host.", alert.Err)
	}
	return ""
}

func certificateMessage(failed *tls.CertificateVerificationError, now time.Time) string {
	var (
		other   x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	leaf := failed.UnverifiedCertificates[0]
	switch {
	case errors.As(failed, &other):
		return "The ingress's certificate is for " + names(leaf) + ", not for the app's host. Use a certificate for the app's host."
	case errors.As(failed, &unknown):
		return fmt.Sprintf("The ingress's certificate is signed by the unknown authority %.100q. Add it to INGRESS_CA_FILE.", leaf.Issuer.String())
	case errors.As(failed, &invalid) && invalid.Reason == x509.Expired:
		whose := "The ingress's certificate"
		if !invalid.Cert.Equal(leaf) {
			whose = fmt.Sprintf("The certificate of %.100q, which signed the ingress's certificate,", invalid.Cert.Subject.String())
		}
		if now.Before(invalid.Cert.NotBefore) {
			return whose + " is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339) + "."
		}
		return whose + " expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339) + ". Renew it."
	}
	return fmt.Sprintf("The ingress's certificate cannot be verified: %.200q.", failed.Err.Error())
}

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
		return "no host"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNames], ", "), more)
	}
	return strings.Join(all, ", ")
}
