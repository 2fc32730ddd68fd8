package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/storetest"
)

const (
	adminPassword = "correct horse battery"
	adaPassword   = "analytical engine 1843"
)

// desk is the function over a real store, with an admin called "root".
type desk struct {
	t       *testing.T
	store   *store.Store
	keys    *identity.Keyring
	service *Service
	handler http.Handler
	cfg     Config
	quick   bool // replicas use quickHasher

	mu   sync.Mutex
	time time.Time // of the service's clock, which only tests move
}

func testConfig() Config {
	return Config{
		HashesAtOnce: 4,
		Burst:        10, Every: 30 * time.Second, UserBurst: 3000, UserEvery: 5 * time.Second, AddressBurst: 60, AddressEvery: 2 * time.Second,
	}
}

// quickHasher is a hasher that costs nothing. make test-long uses the real one everywhere.
type quickHasher struct{}

func (quickHasher) Hash(_ context.Context, password string) (string, error) {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(password))), nil
}

func (q quickHasher) Verify(ctx context.Context, _ identity.Lane, hash, password string) (bool, error) {
	want, err := q.Hash(ctx, password)
	return hash == want, err
}

// newDesk is a desk that hashes passwords as the function does.
func newDesk(t *testing.T) *desk {
	t.Helper()
	return openDesk(t, false)
}

// newQuickDesk is a desk for tests that do not depend on how passwords are hashed.
func newQuickDesk(t *testing.T) *desk {
	t.Helper()
	return openDesk(t, !long.Enabled())
}

func openDesk(t *testing.T, quick bool) *desk {
	t.Helper()
	dir := t.TempDir()
	if err := identity.WriteKeyPair(dir, "test"); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.OpenKeyring(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, store: storetest.New(t), keys: keys, cfg: testConfig(), quick: quick, time: time.Now()}
	d.service = d.replica(d.cfg)
	d.handler = d.service.Handler()
	if err := d.service.EnsureAdmin(t.Context(), "root", adminPassword); err != nil {
		t.Fatal(err)
	}
	return d
}

// replica is another process of the function over the same store and keys.
func (d *desk) replica(cfg Config) *Service {
	d.t.Helper()
	s, err := New(cfg, Parts{
		Store: d.store, Sessions: identity.NewGuard(d.keys, d.store), Keys: d.keys,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	s.now = func() time.Time {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.time
	}
	s.throttle.start = d.time
	if d.quick {
		s.hasher = quickHasher{}
	}
	return s
}

func (d *desk) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.time = d.time.Add(by)
}

// call is a request to the function.
type call struct {
	method, path string
	body         string // "" sends none
	token        string // as a bearer
	cookie       string // as a cookie
	csrf         string
	from         string // the client's address, "192.0.2.1" unless told
	contentType  string // application/json unless told
}

// answer is what came back.
type answer struct {
	status int
	body   string
	header http.Header
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var e wire.Error
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("answer %d %q is no problem: %v", a.status, a.body, err)
	}
	return e.Code
}

func (d *desk) do(c call) answer { return do(d.handler, c) }

func do(h http.Handler, c call) answer {
	r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	if c.from == "" {
		c.from = "192.0.2.1"
	}
	r.RemoteAddr = c.from + ":1234"
	if c.contentType == "" {
		c.contentType = "application/json"
	}
	if c.body != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.cookie != "" {
		r.Header.Set("Cookie", identity.CookieName+"="+c.cookie)
	}
	if c.csrf != "" {
		r.Header.Set(identity.CSRFHeader, c.csrf)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Body.String(), w.Header()}
}

// want holds an answer's status and code against what is expected.
func (a answer) want(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status || a.code(t) != code {
		t.Fatalf("answer is %d %s, want %d %s", a.status, strings.TrimSpace(a.body), status, code)
	}
}

// wantSession is want of a session that was opened.
func (a answer) wantSession(t *testing.T) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("answer is %d %s, want a session", a.status, strings.TrimSpace(a.body))
	}
}

func credentials(username, password string) string {
	return marshal(wire.SignIn{Username: &username, Password: &password})
}

// attempt is a sign-in from an address, with what a device was given; "" of a stranger.
func attempt(username, password, address, device string) call {
	in := wire.SignIn{Username: &username, Password: &password}
	if device != "" {
		in.Device = &device
	}
	return call{method: "POST", path: "/api/v1/session", body: marshal(in), from: address}
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (d *desk) trySignIn(username, password string) answer {
	return d.do(call{method: "POST", path: "/api/v1/session", body: credentials(username, password)})
}

// signIn opens a session, which must work.
func (d *desk) signIn(username, password string) wire.OpenedSession {
	d.t.Helper()
	a := d.trySignIn(username, password)
	if a.status != http.StatusOK {
		d.t.Fatalf("sign in %s: %d %s", username, a.status, a.body)
	}
	return read[wire.OpenedSession](d.t, a)
}

// addUser makes a user, which must work.
func (d *desk) addUser(username, password string) {
	d.t.Helper()
	u, err := d.service.newUser(d.t.Context(), username, password, false)
	if err == nil {
		err = d.store.CreateUser(d.t.Context(), u)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// usernames reads the store for who there is.
func (d *desk) usernames() []string {
	d.t.Helper()
	users, _, err := d.store.Users(d.t.Context(), store.Page{Size: 500})
	if err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, u := range users {
		names = append(names, u.Name)
	}
	return names
}

func read[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("answer %d %q: %v", a.status, a.body, err)
	}
	return v
}
