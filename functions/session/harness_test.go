package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/storetest"
)

const (
	adminPassword = "correct horse battery"
	adaPassword   = "analytical engine 1843"
)

// desk is the function with a real store and an admin called "root".
type desk struct {
	t       *testing.T
	project string // Firestore project
	store   *store.Store
	keys    *identity.Keyring
	service *Service
	handler http.Handler
	cfg     Config
	quick   bool
	clock   functest.Clock
}

func testConfig() Config {
	return Config{
		HashesAtOnce: 4,
		Burst:        10, Every: 30 * time.Second, UserBurst: 3000, UserEvery: 5 * time.Second, AddressBurst: 60, AddressEvery: 2 * time.Second,
	}
}

// quickHasher is a fast fake. make test-long uses the real hasher everywhere.
type quickHasher struct{}

func (quickHasher) Hash(_ context.Context, password string) (string, error) {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(password))), nil
}

func (q quickHasher) Verify(ctx context.Context, _ identity.Lane, hash, password string) (bool, error) {
	want, err := q.Hash(ctx, password)
	return hash == want, err
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return openDesk(t, false)
}

func newQuickDesk(t *testing.T) *desk {
	t.Helper()
	return openDesk(t, !long.Enabled())
}

func openDesk(t *testing.T, quick bool) *desk {
	t.Helper()
	project := storetest.Project(t)
	d := &desk{t: t, project: project, store: storetest.Open(t, project), keys: functest.Keyring(t), cfg: testConfig(), quick: quick}
	d.clock.Set(time.Now())
	d.service = d.replica(d.cfg)
	d.handler = d.service.Handler()
	check.OK(t, d.service.EnsureAdmin(t.Context(), "root", adminPassword))
	return d
}

func (d *desk) replica(cfg Config) *Service {
	d.t.Helper()
	s, err := New(cfg, Parts{
		Store: d.store, Sessions: identity.NewGuard(d.keys, d.store), Keys: d.keys,
		Log: functest.Quiet(),
	})
	check.OK(d.t, err)
	s.now = d.clock.Now
	s.throttle.start = d.clock.Now()
	if d.quick {
		s.hasher = quickHasher{}
	}
	return s
}

func cookie(token, csrf string) http.Header {
	header := http.Header{"Cookie": {identity.CookieName + "=" + token}}
	if csrf != "" {
		header.Set(identity.CSRFHeader, csrf)
	}
	return header
}

func whoAmI(header http.Header) functest.Call {
	return functest.Call{Method: "GET", Path: "/api/v1/session", Header: header}
}

func credentials(username, password string) string {
	return marshal(wire.SignIn{Username: &username, Password: &password})
}

func signInFrom(username, password, address, device string) functest.Call {
	in := wire.SignIn{Username: &username, Password: &password}
	if device != "" {
		in.Device = &device
	}
	return functest.Call{Method: "POST", Path: "/api/v1/session", Body: marshal(in), From: address}
}

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (d *desk) trySignIn(username, password string) functest.Answer {
	d.t.Helper()
	return signInFrom(username, password, "", "").Send(d.t, d.handler)
}

func (d *desk) signIn(username, password string) wire.OpenedSession {
	d.t.Helper()
	return functest.Read[wire.OpenedSession](d.trySignIn(username, password), http.StatusOK)
}

func (d *desk) addUser(username, password string) {
	d.t.Helper()
	u, err := d.service.newUser(d.t.Context(), username, password, false)
	if err == nil {
		err = d.store.CreateUser(d.t.Context(), u)
	}
	check.OK(d.t, err)
}

func (d *desk) usernames() []string {
	d.t.Helper()
	users, _, err := d.store.Users(d.t.Context(), store.Page{Size: 500})
	check.OK(d.t, err)
	var names []string
	for _, u := range users {
		names = append(names, u.Name)
	}
	return names
}
