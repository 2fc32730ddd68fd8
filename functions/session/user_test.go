package session

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	root := d.signIn("root", adminPassword)
	a := d.do(call{method: "POST", path: "/api/v1/users", token: root.Token, body: credentials("ada", adaPassword)})
	if diff := cmp.Diff(wire.User{Username: "ada"}, read[wire.User](t, a)); diff != "" || a.status != http.StatusCreated {
		t.Fatalf("create: %d (-want +got):\n%s", a.status, diff)
	}
	if strings.Contains(a.body, "argon2") || strings.Contains(a.body, adaPassword) {
		t.Errorf("the answer tells too much: %s", a.body)
	}
	a = d.do(call{method: "GET", path: "/api/v1/users/ada", token: root.Token})
	if got := read[wire.User](t, a); a.status != http.StatusOK || got.Username != "ada" || got.Admin {
		t.Errorf("read: %d %+v", a.status, got)
	}
	for _, name := range []string{"bob", "..%2fbob", "Ada"} {
		if a := d.do(call{method: "GET", path: "/api/v1/users/" + name, token: root.Token}); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if u := d.signIn("ada", adaPassword).User; u.Admin {
		t.Error("a user became an admin")
	}
	stored, err := d.store.User(t.Context(), "ada")
	if err != nil || !strings.HasPrefix(stored.Hash, "$argon2id$") || stored.Version != stored.CreatedAt.UnixMicro() || stored.Admin || time.Since(stored.CreatedAt) > time.Hour {
		t.Errorf("stored is %+v, %v", stored, err)
	}
	a = d.do(call{method: "POST", path: "/api/v1/users", token: root.Token, body: `{"username":"ops","password":"another password","admin":true}`})
	if u := read[wire.User](t, a); !u.Admin {
		t.Errorf("no admin was made: %d %s", a.status, a.body)
	}
}

func TestCreateUserRefuses(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ada", adaPassword)
	root, ada := d.signIn("root", adminPassword), d.signIn("ada", adaPassword)
	tests := []struct {
		name, token, body string
		status            int
		code              string
	}{
		{"somebody who is no admin", ada.Token, credentials("bob", adaPassword), 403, "forbidden"},
		{"somebody who is no admin, whatever is sent", ada.Token, "{", 403, "forbidden"},
		{"a name that is taken", root.Token, credentials("ada", "another password"), 409, "already_exists"},
		{"an empty name", root.Token, credentials("", adaPassword), 422, "invalid_name"},
		{"a name in upper case", root.Token, credentials("Bob", adaPassword), 422, "invalid_name"},
		{"a long name", root.Token, credentials(strings.Repeat("b", 41), adaPassword), 422, "invalid_name"},
		{"a name with a newline", root.Token, credentials("bob\n", adaPassword), 422, "invalid_name"},
		{"a name that is a path", root.Token, credentials("../bob", adaPassword), 422, "invalid_name"},
		{"a short password", root.Token, credentials("bob", "short"), 422, "invalid_password"},
		{"a long password", root.Token, credentials("bob", strings.Repeat("a", 257)), 422, "invalid_password"},
		{"no name", root.Token, `{"password":"another password"}`, 422, "missing_field"},
		{"no password", root.Token, `{"username":"bob"}`, 422, "missing_field"},
		{"text for admin", root.Token, `{"username":"bob","password":"another password","admin":"yes"}`, 400, "wrong_type"},
		{"an unknown field", root.Token, `{"username":"bob","password":"another password","hash":"x"}`, 400, "unknown_field"},
		{"half of it", root.Token, `{"username":"bob",`, 400, "malformed_json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d.do(call{method: "POST", path: "/api/v1/users", token: tt.token, body: tt.body}).want(t, tt.status, tt.code)
		})
	}
	t.Cleanup(func() { d.signIn("ada", adaPassword) }) // the one that was taken is as it was
	if diff := cmp.Diff([]string{"ada", "root"}, d.usernames()); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

func TestCreateUserOnce(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	root := d.signIn("root", adminPassword)
	var mu sync.Mutex
	count := map[int]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			body := credentials("ada", fmt.Sprintf("password number %d", i))
			a := d.do(call{method: "POST", path: "/api/v1/users", token: root.Token, body: body})
			mu.Lock()
			defer mu.Unlock()
			count[a.status]++
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[int]int{http.StatusCreated: 1, http.StatusConflict: 5}, count); diff != "" {
		t.Errorf("answers by status (-want +got):\n%s", diff)
	}
}

func TestListUsers(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	for _, name := range []string{"ada", "bob", "cyd", "dan"} {
		d.addUser(name, adaPassword)
	}
	root, ada := d.signIn("root", adminPassword), d.signIn("ada", adaPassword)
	var got []wire.User
	pages := 0
	for path := "/api/v1/users?page_size=2"; path != ""; pages++ {
		list := read[wire.List[wire.User]](t, d.do(call{method: "GET", path: path, token: root.Token}))
		got = append(got, list.Items...)
		path = ""
		if list.NextPageToken != "" {
			path = "/api/v1/users?page_size=2&page_token=" + list.NextPageToken
		}
	}
	want := []wire.User{{Username: "ada"}, {Username: "bob"}, {Username: "cyd"}, {Username: "dan"}, {Username: "root", Admin: true}}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages; users (-want +got):\n%s", pages, diff)
	}
	d.do(call{method: "GET", path: "/api/v1/users", token: ada.Token}).want(t, 403, "forbidden")
	for _, query := range []string{"page_size=0", "page_size=501", "page_size=x", "page_token=%21", "page_token=Li4vYQ"} {
		d.do(call{method: "GET", path: "/api/v1/users?" + query, token: root.Token}).want(t, 400, "invalid_page")
	}
}

func TestFirstAdmin(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var wg sync.WaitGroup
	for i := range 4 { // replicas that start at once
		wg.Go(func() {
			if err := d.replica(d.cfg).EnsureAdmin(t.Context(), "first", fmt.Sprintf("first password %d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	worked := 0
	for i := range 4 {
		if d.trySignIn("first", fmt.Sprintf("first password %d", i)).status == http.StatusOK {
			worked++
		}
	}
	if worked != 1 {
		t.Errorf("%d of 4 passwords work, want 1", worked)
	}
	if err := d.service.EnsureAdmin(t.Context(), "root", "another password"); err != nil {
		t.Fatal(err)
	}
	d.signIn("root", adminPassword) // as it was
}

// TestLostStore: a session is over with its user, also when there is one of the same
// name again: the first admin is made anew in a store that was lost.
func TestLostStore(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	before := d.signIn("root", adminPassword)
	d.store = storetest.New(t)
	d.service = d.replica(d.cfg)
	d.handler = d.service.Handler()
	d.do(call{method: "GET", path: "/api/v1/session", token: before.Token}).want(t, 401, "unauthenticated")
	d.advance(time.Second)
	if err := d.service.EnsureAdmin(t.Context(), "root", adminPassword); err != nil {
		t.Fatal(err)
	}
	d.do(call{method: "GET", path: "/api/v1/session", token: before.Token}).want(t, 401, "unauthenticated")
	d.signIn("root", adminPassword)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Config)
		ok     bool
	}{
		{"the defaults", func(*Config) {}, true},
		{"with an admin", func(c *Config) { c.AdminUsername, c.AdminPassword = "root", adminPassword }, true},
		{"a name alone", func(c *Config) { c.AdminUsername = "root" }, false},
		{"a password alone", func(c *Config) { c.AdminPassword = adminPassword }, false},
		{"a bad name", func(c *Config) { c.AdminUsername, c.AdminPassword = "Root!", adminPassword }, false},
		{"a short password", func(c *Config) { c.AdminUsername, c.AdminPassword = "root", "admin" }, false},
		{"no hashes", func(c *Config) { c.HashesAtOnce = 0 }, false},
		{"no burst", func(c *Config) { c.UserBurst = 0 }, false},
		{"no refill", func(c *Config) { c.AddressEvery = 0 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig()
			tt.change(&cfg)
			if _, err := New(cfg, Parts{Log: slog.New(slog.DiscardHandler)}); (err == nil) != tt.ok {
				t.Errorf("error is %v, want success %v", err, tt.ok)
			}
		})
	}
}
