package chaos

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/emulators/issuer"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// pipelines is a CI system that can be unavailable.
type pipelines struct {
	*issuer.Issuer

	address string
	away    atomic.Bool
}

func issueTokens(listen string) (*pipelines, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return nil, err
	}
	p := &pipelines{address: "http://" + listen}
	if p.Issuer, err = issuer.New(p.address); err != nil {
		return nil, err
	}
	go func() { _ = (&http.Server{Handler: p, ReadHeaderTimeout: callLimit}).Serve(l) }()
	return p, nil
}

func (p *pipelines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.away.Load() {
		panic(http.ErrAbortHandler)
	}
	p.Issuer.ServeHTTP(w, r)
}

func (s *scene) trusted() {
	s.T.Helper()
	s.App("keyless")
	_, err := s.Client.AddTrust(s.T.Context(), s.Project, s.Env, "keyless", wire.AddTrust{Issuer: ci.address, Audience: audience, Claims: map[string]string{"repository": "org/repo"}})
	check.OK(s.T, err)
}

const audience = "chaos"

func (s *scene) pipelineToken() string {
	s.T.Helper()
	token, err := ci.Token(audience, issuer.Claims("org/repo", "main", "deploy"))
	check.OK(s.T, err)
	return token
}

func (s *scene) keylessHook(image, delivery, token string) reply {
	return s.call(http.MethodPost, strings.TrimSuffix(s.url, "hooked")+"keyless", map[string]any{"image": image}, "Authorization", "Bearer "+token, "Idempotency-Key", delivery)
}

const issuerAway = "Token issuer down"

// keylessCell expects that a token is rejected if it cannot be verified, and accepted at most
// once.
func keylessCell(name string) cell {
	c := cell{}
	allowed := map[int]bool{http.StatusAccepted: true, http.StatusServiceUnavailable: true, 0: true}
	switch {
	case name == emptyStore:
		return cell{want: "401: the trust is gone", after: func(x *trial) {
			x.gets("call the webhook", x.keylessHook(image(name, "keyless"), name, x.pipelineToken()), http.StatusUnauthorized, "invalid_token")
		}}
	case strings.HasPrefix(name, "Clock "):
		c.want = "401: no token is valid at that time; afterwards as by default"
		allowed = map[int]bool{http.StatusUnauthorized: true}
	case name == issuerAway:
		c.want = "503 from a restarted webhook function; afterwards as by default"
		allowed = map[int]bool{http.StatusServiceUnavailable: true}
	}
	c.during = func(x *trial) {
		r := x.keylessHook(image(name, "keyless"), name, x.pipelineToken())
		if !allowed[r.status] {
			x.t.Errorf("call the webhook as a pipeline: got %v: %.200s", r, r.body)
		}
		x.note("%d after %.1f s", r.status, r.took.Seconds())
	}
	c.after = func(x *trial) {
		img := image(name, "keyless")
		x.eventually("call the webhook as a pipeline again", func() reply { return x.keylessHook(img, name, x.pipelineToken()) }, http.StatusAccepted)
		x.Runs("keyless", img)
		x.once("keyless", img)
		last, token := image(name, "keyless-last"), x.pipelineToken()
		x.gets("call it with a token", x.keylessHook(last, name+" last", token), http.StatusAccepted, "")
		x.gets("call it with the token again", x.keylessHook(last, name+" more", token), http.StatusUnauthorized, "invalid_token")
	}
	return c
}

// issuerIsAway also restarts webhook, so that it has no cached keys of the issuer.
func issuerIsAway() fault {
	return fault{
		name: issuerAway,
		begin: func(x *trial) {
			ci.away.Store(true)
			x.restart("webhook")
		},
		end: func(*trial) { ci.away.Store(false) },
		cells: [surfaces]cell{
			gate:       {during: all(serves(3*time.Second), revokesInTime)},
			management: {during: manages},
			webhook:    {want: "default: the webhook's own token needs no issuer", during: hooks, after: hooksAgain},
			deploys:    {during: deploysNow},
			rollup:     {during: rolls},

			acknowledgement: confirmed(),
		},
	}
}
