package proxies

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const endlessLimit = 10 * time.Second

// endless checks that a client without a key gets its response before the body ends: a proxy must
// not buffer the body.
func (g *gated) endless(t *testing.T, protocol string) {
	t.Helper()
	for what, r := range map[string]request{"preflight": preflight(), "no key": {method: http.MethodPost, header: http.Header{}}} {
		for _, length := range []int64{-1, 1 << 40} { // undeclared, declared
			ctx, cancel := context.WithTimeout(t.Context(), endlessLimit)
			req, err := http.NewRequestWithContext(ctx, r.method, g.url("/"), io.MultiReader(bytes.NewReader(make([]byte, 4<<20)), stuck{ctx}))
			check.OK(t, err)
			req.Header, req.ContentLength = r.header, length
			res, err := g.clients[protocol].Do(req)
			switch {
			case ctx.Err() != nil:
				t.Errorf("%s, length %d: no response within %v", what, length, endlessLimit)
			case err != nil:
				t.Logf("%s, length %d: %v", what, length, err) // the proxy ended the connection
			default:
				if res.StatusCode == http.StatusOK {
					t.Errorf("%s, length %d: allowed", what, length)
				}
				_ = res.Body.Close()
			}
			cancel()
		}
	}
}

type stuck struct{ ctx context.Context } //nolint:containedctx // ends the wait

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

// TestRefusedPreflights deletes the marked line of each proxy's files (promise G10).
func TestRefusedPreflights(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			k, later := s.AnyKey(), s.AnyKey()
			s.Opens("hello", later) // the earlier one is then valid too
			p.refuse = true
			g := p.start(t, s, "hello")
			for protocol := range g.clients {
				denied(t, g.send(t, protocol, preflight()), http.StatusUnauthorized, "invalid_key", "")
				e := g.echo(t, g.send(t, protocol, preflight("X-API-Key", k.Full, "Authorization", "Bearer app")))
				g.identified(t, e, k)
				if got := values(e, "Authorization"); e.Method != http.MethodOptions || got != "Bearer app" {
					t.Errorf("%s: the app got %s with Authorization %q", protocol, e.Method, got)
				}
			}
			s.Until("count the requests", func() bool {
				u, err := s.Client.Usage(t.Context(), s.Project, k.ID, "", "")
				return err == nil && u.Totals.Allowed == uint64(len(g.clients))
			})
		})
	}
}
