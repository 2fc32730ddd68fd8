package session

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	root := d.signIn("root", adminPassword)
	a := functest.Call{Method: "POST", Path: "/api/v1/users", Body: credentials("ada", adaPassword), Header: functest.Bearer(root.Token)}.Send(t, d.handler)
	check.Equal(t, "created", wire.User{Username: "ada", State: "active"}, functest.Read[wire.User](a, http.StatusCreated))
	if body := string(a.Body); strings.Contains(body, "argon2") || strings.Contains(body, adaPassword) {
		t.Errorf("the response contains a secret: %s", body)
	}
	a = functest.Call{Method: "GET", Path: "/api/v1/users/ada", Header: functest.Bearer(root.Token)}.Send(t, d.handler)
	check.Equal(t, "read", wire.User{Username: "ada", State: "active"}, functest.Read[wire.User](a, http.StatusOK))
	for _, name := range []string{"bob", "..%2fbob", "Ada"} {
		functest.Call{Method: "GET", Path: "/api/v1/users/" + name, Header: functest.Bearer(root.Token)}.Send(t, d.handler).Is(http.StatusNotFound)
	}
	if u := d.signIn("ada", adaPassword).User; u.Admin {
		t.Error("a user became an admin")
	}
	stored, err := d.store.User(t.Context(), "ada")
	if err != nil || !strings.HasPrefix(stored.Hash, "$argon2id$") || stored.Version != stored.CreatedAt.UnixMicro() || stored.Admin || time.Since(stored.CreatedAt) > time.Hour {
		t.Errorf("stored: got %+v, %v", stored, err)
	}
	a = functest.Call{Method: "POST", Path: "/api/v1/users", Body: `{"username":"ops","password":"another password","admin":true}`, Header: functest.Bearer(root.Token)}.Send(t, d.handler)
	if u := functest.Read[wire.User](a, http.StatusCreated); !u.Admin {
		t.Errorf("want an admin, got %+v", u)
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
		code              problem.Code
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
	t.Run("calls", func(t *testing.T) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				functest.Call{Method: "POST", Path: "/api/v1/users", Body: tt.body, Header: functest.Bearer(tt.token)}.Send(t, d.handler).Refused(tt.status, tt.code)
			})
		}
	})
	d.signIn("ada", adaPassword) // unchanged
	check.Equal(t, "users", []string{"ada", "root"}, d.usernames())
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
			a := functest.Call{Method: "POST", Path: "/api/v1/users", Body: body, Header: functest.Bearer(root.Token)}.Send(t, d.handler)
			mu.Lock()
			defer mu.Unlock()
			count[a.Status]++
		})
	}
	wg.Wait()
	check.Equal(t, "responses by status", map[int]int{http.StatusCreated: 1, http.StatusConflict: 5}, count)
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
		list := functest.Read[wire.List[wire.User]](functest.Call{Method: "GET", Path: path, Header: functest.Bearer(root.Token)}.Send(t, d.handler), http.StatusOK)
		got = append(got, list.Items...)
		path = ""
		if list.NextPageToken != "" {
			path = "/api/v1/users?page_size=2&page_token=" + list.NextPageToken
		}
	}
	at := d.clock.Now().UTC().Truncate(time.Microsecond)
	want := []wire.User{
		{Username: "ada", State: "active", LastSignIn: &at},
		{Username: "bob", State: "active"},
		{Username: "cyd", State: "active"},
		{Username: "dan", State: "active"},
		{Username: "root", Admin: true, State: "active", LastSignIn: &at},
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages; users (-want +got):\n%s", pages, diff)
	}
	functest.Call{Method: "GET", Path: "/api/v1/users", Header: functest.Bearer(ada.Token)}.Send(t, d.handler).Refused(403, "forbidden")
	for _, query := range []string{"page_size=0", "page_size=501", "page_size=x", "page_token=%21", "page_token=Li4vYQ"} {
		functest.Call{Method: "GET", Path: "/api/v1/users?" + query, Header: functest.Bearer(root.Token)}.Send(t, d.handler).Refused(400, "invalid_page")
	}
}

func TestFirstAdmin(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.store = storetest.New(t)
	d.service = d.replica(d.cfg)
	d.handler = d.service.Handler()
	check.OK(t, d.service.EnsureAdmin(t.Context(), "", "")) // without the settings
	var wg sync.WaitGroup
	for i := range 4 { // concurrent replicas
		wg.Go(func() {
			if err := d.replica(d.cfg).EnsureAdmin(t.Context(), "first", fmt.Sprintf("first password %d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	worked := 0
	for i := range 4 {
		if d.trySignIn("first", fmt.Sprintf("first password %d", i)).Status == http.StatusOK {
			worked++
		}
	}
	if worked != 1 {
		t.Errorf("%d of 4 passwords work, want 1", worked)
	}
	for _, name := range []string{"first", "root"} {
		check.OK(t, d.service.EnsureAdmin(t.Context(), name, "another password"))
		d.trySignIn(name, "another password").Refused(http.StatusUnauthorized, "invalid_credentials")
	}
}

// The settings of an installation still name the first admin. Earlier releases wrote no mark.
func TestRemovedFirstAdminStaysGone(t *testing.T) {
	t.Parallel()
	for _, earlier := range []bool{false, true} {
		d := newQuickDesk(t)
		project := storetest.Project(t)
		d.store = storetest.Open(t, project)
		start := func() {
			t.Helper()
			d.service = d.replica(d.cfg)
			d.handler = d.service.Handler()
			check.OK(t, d.service.EnsureAdmin(t.Context(), "root", adminPassword))
		}
		start()
		if earlier {
			storetest.Change(t, project, "marks/first_user", nil)
			start()
		}
		d.signIn("root", adminPassword)
		u, err := d.service.newUser(t.Context(), "ada", adaPassword, true)
		check.OK(t, err)
		check.OK(t, d.store.CreateUser(t.Context(), u))
		ada := d.signIn("ada", adaPassword)
		functest.Call{Method: "DELETE", Path: "/api/v1/users/root", Header: functest.Bearer(ada.Token)}.Send(t, d.handler).Is(http.StatusOK)
		start()
		check.Equal(t, "users after a restart", []string{"ada"}, d.usernames())
		d.trySignIn("root", adminPassword).Refused(http.StatusUnauthorized, "invalid_credentials")
		storetest.Change(t, project, "users/ada", nil)
		start()
		check.Equal(t, "users after a restart without users", []string(nil), d.usernames())
	}
}

// A session is invalid for a user who was created again with the same name, e.g. after the store
// was lost.
func TestRecreatedUserInvalidatesSession(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	before := d.signIn("root", adminPassword)
	d.store = storetest.New(t)
	d.service = d.replica(d.cfg)
	d.handler = d.service.Handler()
	whoAmI(functest.Bearer(before.Token)).Send(t, d.handler).Refused(401, "unauthenticated")
	d.clock.Advance(time.Second)
	check.OK(t, d.service.EnsureAdmin(t.Context(), "root", adminPassword))
	whoAmI(functest.Bearer(before.Token)).Send(t, d.handler).Refused(401, "unauthenticated")
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
			if _, err := New(cfg, Parts{Log: functest.Quiet()}); (err == nil) != tt.ok {
				t.Errorf("got error %v, want success %v", err, tt.ok)
			}
		})
	}
}
