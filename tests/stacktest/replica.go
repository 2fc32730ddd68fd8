package stacktest

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
)

// Replica is a checker that tests call directly.
type Replica struct {
	URL    string
	client *http.Client
}

// Replicas returns the stack's checkers.
func Replicas(t testing.TB, s *stack.Stack) []Replica {
	t.Helper()
	var all []Replica
	for _, url := range checkers(t, s) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		all = append(all, Replica{URL: url, client: &http.Client{Transport: transport, Timeout: 10 * time.Second}})
	}
	return all
}

// checkers returns the ready replicas if [Elsewhere] is true.
func checkers(t testing.TB, s *stack.Stack) []string {
	t.Helper()
	if !Elsewhere() {
		return s.Info().Checkers
	}
	now, err := open(stack.Options{})
	check.OK(t, err)
	return now.Info().Checkers
}

// Patient returns a replica with a longer timeout.
func (r Replica) Patient(d time.Duration) Replica {
	client := *r.client
	client.Timeout = d
	r.client = &client
	return r
}

// Check sends a check, with additional pairs of header names and values.
func (r Replica) Check(ctx context.Context, namespace, app, key string, header ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/check/"+namespace+"/"+app, nil)
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("X-Forwarded-Method", "GET")
	req.Header.Set("X-Forwarded-Uri", "/")
	req.Header.Set("X-Forwarded-Host", app+"."+namespace+".localhost")
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return Do(r.client, req)
}

// propagation is the time limit for a change on a busy machine. Promise F3 is a few seconds; the
// ceiling is 90 s.
const propagation = 30 * time.Second

// Opens waits until every replica allows a key at an app. Each allows and counts one request.
func (s *Site) Opens(app string, k Key) {
	s.T.Helper()
	s.everywhere(app, k, http.StatusOK)
}

// Refuses waits until every replica rejects a key.
func (s *Site) Refuses(app string, k Key) {
	s.T.Helper()
	s.everywhere(app, k, http.StatusUnauthorized)
}

// Limits sends requests until every replica limits their rate.
func (s *Site) Limits(app string, k Key) {
	s.T.Helper()
	s.everywhere(app, k, http.StatusTooManyRequests)
}

func (s *Site) everywhere(app string, k Key, status int) {
	s.T.Helper()
	for _, r := range Replicas(s.T, s.Stack) {
		r.Until(s, app, k.Full, status, propagation)
	}
}

// Until sends checks until one returns the status.
func (r Replica) Until(s *Site, app, key string, status int, within time.Duration) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var last any
	for {
		a, err := r.Check(ctx, s.Project+"-"+s.Env, app, key)
		switch {
		case err == nil && a.Status == status:
			return
		case err == nil:
			last = a.Status
		case ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			s.T.Fatalf("%s: got %v, want %d", r.URL, last, status)
		case <-tick.C:
		}
	}
}
