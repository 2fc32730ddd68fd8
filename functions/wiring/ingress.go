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

// ProbePath is what gates are asked for. Nothing is served there; an app whose gate
// is not in place sees the request.
const ProbePath = "/.well-known/sluice-gate"

const (
	// probeTimeout bounds one question to one address of the ingress.
	probeTimeout = 2 * time.Second

	// maxProbeBody is more than a denial has, in bytes.
	maxProbeBody = 4096
)

// ingress asks the ingress for an app's public URL, as a client without a key.
type ingress struct {
	scheme  string
	host    string
	port    string
	caFile  string // file of those that vouch for apps' certificates besides the system's; read for each proof, since they are renewed
	lookup  func(ctx context.Context, host string) ([]string, error)
	now     func() time.Time
	witness *witness // of the gate's own answers
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
		lookup: net.DefaultResolver.LookupHost, now: time.Now, witness: &witness{},
	}, nil
}

// question describes the proof that a request to the ingress seeks.
type question struct {
	app.App

	// generation is that of the gate on the app's route, "" for a gate without one. The
	// checkers' proof has to name it.
	generation string

	// anyGeneration accepts a proof that names no generation: some checkers are of an
	// earlier release, or a former route of the app may be the one that answers.
	anyGeneration bool
}

// ask asks every replica of the ingress for an app.
func (i *ingress) ask(ctx context.Context, q question, sought proof) answer {
	roots, err := outbound.Authorities(i.caFile)
	if err != nil {
		return answer{kind: untrusted, detail: "The authorities that vouch for the ingress's certificate cannot be read."}
	}
	r := replicas{i.addresses, func(ctx context.Context, address string) answer {
		return i.askOne(ctx, net.JoinHostPort(address, i.port), q, roots)
	}}
	return r.ask(ctx, sought)
}

func (i *ingress) addresses(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return i.lookup(ctx, i.host)
}

// askOne asks one address over a connection of its own.
func (i *ingress) askOne(ctx context.Context, address string, q question, roots *x509.CertPool) answer {
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
		return answer{kind: unreachable}
	}
	nonce := checkers.NewNonce()
	req.Header.Set("User-Agent", "sluice-wiring")
	req.Header.Set(checkers.NonceHeader, nonce)
	resp, err := transport.RoundTrip(req) // a redirect is an answer like any other
	if err != nil {
		return i.noAnswer(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written through it
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeBody))
	if err != nil {
		return i.noAnswer(ctx, err)
	}
	got := classify(resp.StatusCode, body)
	if got.kind == refused {
		got.kind = i.proven(q, nonce, resp.Header.Get(checkers.ProofHeader))
	}
	return got
}

// proven returns the kind of a denial that has the gate's body, by its proof.
func (i *ingress) proven(q question, nonce, proof string) kind {
	subject := q.Namespace + "/" + q.Name
	switch {
	case q.generation != "" && i.witness.proven(subject+"/"+q.generation, nonce, proof):
		return refused
	case !i.witness.proven(subject, nonce, proof):
		return copied
	case q.generation != "" && !q.anyGeneration:
		return stale
	}
	return refused
}

func (i *ingress) noAnswer(ctx context.Context, err error) answer {
	if detail := tlsMessage(err, i.now()); detail != "" {
		return answer{kind: untrusted, detail: detail}
	}
	if ctx.Err() != nil {
		return answer{kind: late}
	}
	return answer{kind: unreachable}
}

// kind is what an answer to a request without a key says about the gate, in words for
// an operator.
type kind string

const (
	unreachable kind = "The ingress cannot be reached."
	untrusted   kind = "untrusted" // its certificate, or its TLS, is not as it should be; the detail says how
	// The checker may hang; Traefik waits 30 s for it.
	late kind = "The ingress does not answer in time; the checker may be stuck."

	// The gate's own 401, 503 and 500, by their bodies. The first proves it.
	refused       kind = "The gate still answers."
	unavailable   kind = "The gate is on the route, but cannot verify keys right now."
	misconfigured kind = "The gate is on the route, but misconfigured."

	tooMany     kind = "The ingress has more addresses than can be asked, so its gate cannot be proven."
	silent      kind = "The ingress cannot reach the checker." // a bare 500 is what Traefik says then
	unknownHost kind = "The ingress does not know the app's host, or the app answers 404 without a key."
	other       kind = "The app's public URL still answers %d to a request without a key."
	copied      kind = "The answer lacks the checkers' proof for the present route. The ingress has not taken up the route yet, or something copies the gate's answer."
	stale       kind = "The ingress has not taken up the present route yet. An earlier gate still answers."

	// The gate is in place, but the detail says how it can be walked around.
	bypassed   kind = "The app is reachable without the gate at %s." //nolint:gosec // "pass" is no password here
	moving     kind = "The gate is on the route; Knative has not said yet that it has taken the app off its public gateway."
	unsearched kind = "The gate is on the route; the cluster could not be asked for ways around it."
)

// answer is the ingress's answer to a request without a key.
type answer struct {
	kind   kind
	status int    // HTTP
	detail string // the message, of untrusted; where the ways are, of bypassed
}

// classify reads an answer. The gate is known by its body, byte for byte: an app
// may well have 401s of its own.
func classify(status int, body []byte) answer {
	body = bytes.TrimSpace(body)
	for _, own := range []struct {
		kind kind
		code problem.Code
	}{{refused, problem.InvalidKey}, {unavailable, problem.GateUnavailable}, {misconfigured, problem.Misconfigured}} {
		if status == problem.Of(own.code).Status() && bytes.Equal(body, denial.New(own.code).Body()) {
			return answer{kind: own.kind, status: status}
		}
	}
	switch {
	case status == http.StatusInternalServerError && len(body) == 0:
		return answer{kind: silent, status: status}
	case status == http.StatusNotFound:
		return answer{kind: unknownHost, status: status}
	}
	return answer{kind: other, status: status}
}

// passes tells whether a request without a key has got through to the app, or past
// the gate at least. No answer is no such proof.
func (a answer) passes() bool {
	return a.kind == other || a.kind == unknownHost || a.kind == copied || a.kind == bypassed
}

// proves tells whether an answer is what was sought. A bare 500 does not keep a
// gate from being released: an app may answer like that, and the route no longer
// names the gate.
func (a answer) proves(sought proof) bool {
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

// message tells an operator what is in the way.
func (a answer) message() string {
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

// some names the first few of many.
func some(ways []string) string {
	const most = 3
	if more := len(ways) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(ways[:most], ", "), more)
	}
	return strings.Join(ways, ", ")
}

// maxNames is how many of a certificate's names a message lists.
const maxNames = 3

// tlsMessage tells an operator what is wrong with an https ingress whose certificate or
// whose TLS has failed with err, "" when something else has.
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
		return "The ingress answers a request for https without TLS."
	case errors.As(err, &alert) && alert.Op == "remote error":
		return fmt.Sprintf("The ingress refuses the TLS handshake for the app's host (%v).", alert.Err)
	}
	return ""
}

// certificateMessage tells what is wrong with a certificate. What it says of itself is quoted.
func certificateMessage(failed *tls.CertificateVerificationError, now time.Time) string {
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
