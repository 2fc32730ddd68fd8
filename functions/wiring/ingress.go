package wiring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/gateproof"
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
	scheme      string
	host        string
	port        string
	authorities string // file of those that vouch for apps' certificates besides the system's; read for each proof, since they are renewed
	lookup      func(ctx context.Context, host string) ([]string, error)
	now         func() time.Time
	witness     *witness // of the gate's own answers
}

func newIngress(rawURL, authorities string) (*ingress, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("INGRESS_URL: %w", err)
	}
	if _, err := readRoots(authorities); err != nil {
		return nil, fmt.Errorf("INGRESS_CA_FILE: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return &ingress{
		scheme: u.Scheme, host: u.Hostname(), port: port, authorities: authorities,
		lookup: net.DefaultResolver.LookupHost, now: time.Now, witness: &witness{},
	}, nil
}

// ask asks every address of the ingress for an app until one gives an
// answer that does not prove what is sought, and gives that one; if all prove it,
// the last.
func (i *ingress) ask(ctx context.Context, a app.App, sought proof) answer {
	addresses, err := i.addresses(ctx)
	if err != nil || len(addresses) == 0 {
		return answer{kind: unreachable}
	}
	roots, err := readRoots(i.authorities)
	if err != nil {
		return answer{kind: untrusted, detail: "The authorities that vouch for the ingress's certificate cannot be read."}
	}
	var last answer
	for _, address := range addresses {
		if last = i.askOne(ctx, net.JoinHostPort(address, i.port), a, roots); !last.proves(sought) {
			return last
		}
	}
	return last
}

func (i *ingress) addresses(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return i.lookup(ctx, i.host)
}

// askOne asks one address over a connection of its own.
func (i *ingress) askOne(ctx context.Context, address string, a app.App, roots *x509.CertPool) answer {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.Host, RootCAs: roots, Time: i.now},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.scheme+"://"+a.Host+ProbePath, http.NoBody)
	if err != nil {
		return answer{kind: unreachable}
	}
	nonce := gateproof.NewNonce()
	req.Header.Set("User-Agent", "sluice-wiring")
	req.Header.Set(gateproof.NonceHeader, nonce)
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
	if got.kind == refused && !i.witness.proven(a.Ref(), nonce, resp.Header.Get(gateproof.ProofHeader)) {
		got.kind = copied
	}
	return got
}

func (i *ingress) noAnswer(ctx context.Context, err error) answer {
	if detail := distrust(err, i.now()); detail != "" {
		return answer{kind: untrusted, detail: detail}
	}
	if ctx.Err() != nil {
		return answer{kind: late}
	}
	return answer{kind: unreachable}
}
