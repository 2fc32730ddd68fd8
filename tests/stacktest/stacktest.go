// Package stacktest provides sites for black-box tests. A site is a project on a running stack.
// Its calls go through the real ingress.
//
//	s := stacktest.New(t, stack)
//	key := s.Key(s.Plan(wire.CreatePlan{…}))
//	s.Gate("hello")
//	s.Call("hello").Key(key).Gets(200)
//	s.Revoke(key)
//	s.Call("hello").Key(key).Within(90*time.Second).Gets(401, "invalid_key")
package stacktest

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// Image is an image of the echo app.
const Image = "registry.example/echo:v1"

// Site is a project with the environment "prod".
type Site struct {
	T       testing.TB
	Stack   *stack.Stack
	Client  *client.Client // signed in as the admin
	Project string
	Env     string

	ingress *http.Client
}

// Key is an issued key.
type Key struct {
	wire.Key
	Full string
}

// New creates a site, which exists until the stack ends.
func New(t testing.TB, s *stack.Stack) *Site {
	t.Helper()
	return Named(t, s, "p"+strings.ToLower(rand.Text()[:12]))
}

// Named creates a site with a project name.
func Named(t testing.TB, s *stack.Stack, project string) *Site {
	t.Helper()
	c := SignIn(t, s, s.Info().Admin.Username, s.Info().Admin.Password)
	site := &Site{T: t, Stack: s, Client: c, Project: project, Env: "prod", ingress: Ingress(s)}
	_, err := c.CreateProject(t.Context(), site.Project)
	site.must(err)
	_, err = c.CreateEnvironment(t.Context(), site.Project, site.Env)
	site.must(err)
	return site
}

// SignIn returns a client with a session.
func SignIn(t testing.TB, s *stack.Stack, username, password string) *client.Client {
	t.Helper()
	anonymous := client.New(s.Info().BaseURL)
	session, err := anonymous.SignIn(t.Context(), username, password)
	if err != nil {
		t.Fatalf("sign in as %s: %v", username, err)
	}
	return anonymous.WithToken(session.Token)
}

// Ingress returns a client that sends all requests to the ingress, and follows no redirects.
func Ingress(s *stack.Stack) *http.Client {
	address := strings.TrimPrefix(s.Info().IngressURL, "http://")
	var d net.Dialer
	return &http.Client{
		Timeout: 60 * time.Second,
		Transport: Described(&http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
			MaxIdleConnsPerHost: 64,
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// In returns the site with a new environment.
func (s *Site) In(env string) *Site {
	s.T.Helper()
	other := &Site{T: s.T, Stack: s.Stack, Client: s.Client, Project: s.Project, Env: env, ingress: s.ingress}
	_, err := s.Client.CreateEnvironment(s.T.Context(), s.Project, env)
	s.must(err)
	return other
}

// For returns the site for another test.
func (s *Site) For(t testing.TB) *Site {
	t.Helper()
	other := *s
	other.T = t
	return &other
}

// App creates an app and waits until it responds.
func (s *Site) App(name string) wire.App {
	s.T.Helper()
	image := Image
	a, err := s.Client.CreateApp(s.T.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, Image: &image})
	s.must(err)
	s.Call(name).Within(30 * time.Second).Gets(http.StatusOK)
	return a
}

// Gate turns Require API key on and waits until the gate is engaged.
func (s *Site) Gate(app string) {
	s.T.Helper()
	_, err := s.Client.RequireAPIKey(s.T.Context(), s.Project, s.Env, app, true)
	s.must(err)
	s.WaitGate(app, "engaged")
}

// WaitGate waits until the app's gate has a state.
func (s *Site) WaitGate(app, state string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), 60*time.Second)
	defer cancel()
	a, err := s.Client.WaitGate(ctx, s.Project, s.Env, app, state)
	if err != nil {
		s.T.Fatalf("wait until the gate of %s is %s: %v (last: %+v)", app, state, err, a.Gate)
	}
}

// GatedApp creates an app and engages its gate.
func (s *Site) GatedApp(name string) {
	s.T.Helper()
	s.App(name)
	s.Gate(name)
}

// Plan creates a plan, by default without effective limits.
func (s *Site) Plan(p wire.CreatePlan) wire.Plan {
	s.T.Helper()
	if p.Name == nil {
		name := "plan " + strings.ToLower(rand.Text()[:8])
		p.Name = &name
	}
	if p.Rate == nil {
		rate := 100_000.0
		p.Rate = &rate
	}
	if p.Burst == nil {
		burst := int64(1_000_000)
		p.Burst = &burst
	}
	made, err := s.Client.CreatePlan(s.T.Context(), s.Project, s.Env, p)
	s.must(err)
	return made
}

// Key issues a key of a plan.
func (s *Site) Key(p wire.Plan, change ...func(*wire.CreateKey)) Key {
	s.T.Helper()
	req := wire.CreateKey{Plan: &p.ID}
	for _, c := range change {
		c(&req)
	}
	k, full, err := s.Client.CreateKey(s.T.Context(), s.Project, s.Env, req)
	if e := (*client.Error)(nil); errors.As(err, &e) && e.Status >= http.StatusInternalServerError {
		// The store emulator may fail while hundreds of keys are created. A second key does no
		// harm.
		s.T.Logf("create a key again after: %v", err)
		k, full, err = s.Client.CreateKey(s.T.Context(), s.Project, s.Env, req)
	}
	s.must(err)
	return Key{Key: k, Full: string(full)}
}

// AnyKey issues a key without effective limits.
func (s *Site) AnyKey(change ...func(*wire.CreateKey)) Key {
	s.T.Helper()
	return s.Key(s.Plan(wire.CreatePlan{}), change...)
}

// Disable disables a key.
func (s *Site) Disable(k Key) {
	s.T.Helper()
	_, err := s.Client.DisableKey(s.T.Context(), s.Project, k.ID)
	s.must(err)
}

// Enable enables a disabled key.
func (s *Site) Enable(k Key) {
	s.T.Helper()
	_, err := s.Client.EnableKey(s.T.Context(), s.Project, k.ID)
	s.must(err)
}

// Revoke revokes a key.
func (s *Site) Revoke(k Key) {
	s.T.Helper()
	_, err := s.Client.RevokeKey(s.T.Context(), s.Project, k.ID)
	s.must(err)
}

// Rotate replaces a key's secret.
func (s *Site) Rotate(k Key, grace time.Duration) Key {
	s.T.Helper()
	rotated, full, err := s.Client.RotateKey(s.T.Context(), s.Project, k.ID, grace)
	s.must(err)
	return Key{Key: rotated, Full: string(full)}
}

// Host returns an app's public host.
func (s *Site) Host(app string) string { return app + "." + s.Project + "-" + s.Env + ".localhost" }

func (s *Site) must(err error) {
	s.T.Helper()
	check.OK(s.T, err)
}

// OnlyHas checks the numbers of plans, keys and apps in the environment.
func (s *Site) OnlyHas(plans, keys, apps int) {
	s.T.Helper()
	ctx := context.WithoutCancel(s.T.Context())
	p, err := client.Collect(s.Client.Plans(ctx, s.Project, s.Env))
	s.must(err)
	k, err := client.Collect(s.Client.Keys(ctx, s.Project, client.KeyFilter{Environment: s.Env}))
	s.must(err)
	a, err := client.Collect(s.Client.Apps(ctx, s.Project, s.Env))
	s.must(err)
	if len(p) != plans || len(k) != keys || len(a) != apps {
		s.T.Errorf("got %d plans, %d keys and %d apps, want %d, %d and %d", len(p), len(k), len(a), plans, keys, apps)
	}
}
