package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func person(t *testing.T) (s *stacktest.Site, username, password string) {
	t.Helper()
	s = stacktest.New(t, world)
	username, password = "user-"+s.Project, "a password of "+s.Project
	if _, err := s.Client.CreateUser(t.Context(), username, password, false); err != nil {
		t.Fatal(err)
	}
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: username, Role: "owner"}}))
	return s, username, password
}

func TestCSRF(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "CSRF: changes by cookie with a missing, empty or foreign CSRF value, as form, by GET",
		"403 `csrf_required` (forms: 415); the cookie is HttpOnly, Secure, SameSite")
	s, username, password := person(t)
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
	a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body})
	var mine wire.OpenedSession
	check.OK(t, json.Unmarshal([]byte(a.Body), &mine))
	cookie := a.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie: got %q, want attribute %s", cookie, want)
		}
	}
	other := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body})
	var second wire.OpenedSession
	check.OK(t, json.Unmarshal([]byte(other.Body), &second))
	plans := "/api/v1/projects/" + s.Project + "/environments/prod/plans"
	send := func(method, path, contentType, body string, csrf ...string) stacktest.Answer {
		h := []string{"Cookie", identity.CookieName + "=" + mine.Token, "Origin", "https://evil.example", "Content-Type", contentType}
		if len(csrf) > 0 {
			h = append(h, identity.CSRFHeader, csrf[0])
		}
		return call(t, request{method: method, path: path, body: body, header: h})
	}
	const plan = `{"name":"p","rate":1,"burst":1}`
	for name, csrf := range map[string][]string{"none": nil, "empty": {""}, "another session's": {second.CSRFToken}, "in capitals": {strings.ToLower(mine.CSRFToken)}} {
		if a := send(http.MethodPost, plans, "application/json", plan, csrf...); a.Status != http.StatusForbidden || a.Code() != "csrf_required" {
			t.Errorf("%s: got %d %s", name, a.Status, a.Body)
		}
		if a := send(http.MethodDelete, "/api/v1/session", "application/json", "", csrf...); a.Status != http.StatusForbidden {
			t.Errorf("sign-out, %s: got %d %s, want %d", name, a.Status, a.Body, http.StatusForbidden)
		}
	}
	for _, form := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		if a := send(http.MethodPost, plans, form, plan, mine.CSRFToken); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: got %d %s, want %d", form, a.Status, a.Body, http.StatusUnsupportedMediaType)
		}
		if a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body, header: []string{"Content-Type", form}}); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("sign-in as %s: got %d %s, want %d", form, a.Status, a.Body, http.StatusUnsupportedMediaType)
		}
	}
	recorded := "/api/v1/projects/" + s.Project + "/requests/nobodys"
	for want, csrf := range map[int][]string{http.StatusForbidden: nil, http.StatusOK: {mine.CSRFToken}} {
		if a := send(http.MethodGet, recorded, "application/json", "", csrf...); a.Status != want {
			t.Errorf("recorded GET with the CSRF value %q: got %d %s, want %d", csrf, a.Status, a.Body, want)
		}
	}
	for _, h := range []string{"X-HTTP-Method-Override", "X-Method-Override"} {
		if a := call(t, request{path: plans, header: []string{"Cookie", identity.CookieName + "=" + mine.Token, h, "POST"}}); a.Status != http.StatusOK {
			t.Errorf("GET with %s: got %d %s, want %d", h, a.Status, a.Body, http.StatusOK)
		}
	}
	s.OnlyHas(0, 0, 0)
	if a := send(http.MethodPost, plans, "application/json", plan, mine.CSRFToken); a.Status != http.StatusCreated {
		t.Errorf("with the valid value: got %d %s, want %d", a.Status, a.Body, http.StatusCreated)
	}
	if allow := a.Header.Get("Access-Control-Allow-Origin"); allow != "" {
		t.Errorf("Access-Control-Allow-Origin: got %q, want none", allow)
	}
	row.Measured("19")
}

func TestFixation(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "session fixation: planted cookies; cookies of two users; expired and forged cookies; cookie and bearer token",
		"each sign-in creates a session with a `__Host-` cookie; two users' cookies: 401; the bearer token takes precedence")
	_, username, password := person(t)
	planted := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
	a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body, header: []string{"Cookie", identity.CookieName + "=" + planted}})
	var mine wire.OpenedSession
	if err := json.Unmarshal([]byte(a.Body), &mine); err != nil || a.Status != http.StatusOK {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	if mine.Token == planted || mine.User.Username != username {
		t.Errorf("signed in as %+v, planted token reused: %t", mine.User, mine.Token == planted)
	}
	if again := bearer(t, username, password); again == mine.Token {
		t.Error("two sign-ins return the same token")
	}
	if cookie := a.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-") {
		t.Errorf("cookie %q has no __Host- prefix", cookie)
	}
	own, others := identity.CookieName+"="+mine.Token, identity.CookieName+"="+planted
	for _, both := range []string{others + "; " + own, own + "; " + others} {
		if a := call(t, request{path: "/api/v1/session", header: []string{"Cookie", both}}); a.Status != http.StatusUnauthorized {
			t.Errorf("cookies of two users: got %d %s, want %d", a.Status, a.Body, http.StatusUnauthorized)
		}
	}
	dead := bearer(t, username, password)
	if a := call(t, request{method: http.MethodDelete, path: "/api/v1/session", token: dead}); a.Status != http.StatusNoContent {
		t.Fatalf("sign out: got %d %s, want %d", a.Status, a.Body, http.StatusNoContent)
	}
	for _, invalid := range []string{identity.CookieName + "=" + dead, identity.CookieName + "=x.y.z", "sluice_session=" + planted} {
		a := call(t, request{path: "/api/v1/session", header: []string{"Cookie", invalid + "; " + own}})
		if a.Status != http.StatusOK || !strings.Contains(a.Body, `"`+username+`"`) {
			t.Errorf("with the invalid cookie %.30s…: got %d %s", invalid, a.Status, a.Body)
		}
	}
	a = call(t, request{path: "/api/v1/session", token: mine.Token, header: []string{"Cookie", identity.CookieName + "=" + planted}})
	if !strings.Contains(a.Body, `"`+username+`"`) {
		t.Errorf("bearer token and cookie: got %d %s", a.Status, a.Body)
	}
	for _, where := range []string{"?token=", "?access_token=", "?sluice_session="} {
		if a := call(t, request{path: "/api/v1/session" + where + url.QueryEscape(mine.Token)}); a.Status != http.StatusUnauthorized {
			t.Errorf("token in the address: got %d, want %d", a.Status, http.StatusUnauthorized)
		}
	}
	row.Measured("11")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "sessions after sign-out, after a password change, after removal from the project",
		"401 at once from every function; 403 for the project")
	s, username, password := person(t)
	first, second := bearer(t, username, password), bearer(t, username, password)
	paths := []string{
		"/api/v1/session", "/api/v1/projects", "/api/v1/projects/" + s.Project, "/api/v1/projects/" + s.Project + "/api-keys",
		"/api/v1/projects/" + s.Project + "/environments/prod/apps/x/deployments", "/api/v1/projects/" + s.Project + "/environments/prod/apps/x/builds",
		"/api/v1/projects/" + s.Project + "/api-keys/key-00000000/usage",
	}
	all := func(token string, want func(int) bool, when string) {
		t.Helper()
		for _, path := range paths {
			if a := call(t, request{path: path, token: token}); !want(a.Status) {
				t.Errorf("%s, %s: got %d %s", when, path, a.Status, a.Body)
			}
		}
	}
	dead := func(status int) bool { return status == http.StatusUnauthorized }
	alive := func(status int) bool { return status == http.StatusOK || status == http.StatusNotFound }
	all(first, alive, "before")
	if a := call(t, request{method: http.MethodDelete, path: "/api/v1/session", token: first}); a.Status != http.StatusNoContent {
		t.Fatalf("sign out: got %d %s, want %d", a.Status, a.Body, http.StatusNoContent)
	}
	all(first, dead, "after sign-out")
	all(second, alive, "second session after sign-out of the first")
	check.OK(t, s.Client.ResetPassword(t.Context(), username, "another password of "+s.Project))
	all(second, dead, "after a password change")
	third := bearer(t, username, "another password of "+s.Project)
	all(third, alive, "signed in again")
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: world.Info().Admin.Username, Role: "owner"}}))
	paths = paths[2:]
	all(third, func(status int) bool { return status == http.StatusForbidden }, "after removal from the project")
	row.Measured(fmt.Sprintf("%d", 5*(len(paths)+2)+len(paths)))
}

func TestSignInGuessing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "password guesses with changing `X-Forwarded-For`; probing for usernames",
		"429 with `Retry-After` after ten failures, also for unknown users")
	_, username, password := person(t)
	try := func(name, pass, from string) stacktest.Answer {
		return call(t, request{
			method: http.MethodPost, path: "/api/v1/session", body: fmt.Sprintf(`{"username":%q,"password":%q}`, name, pass),
			header: []string{"X-Forwarded-For", from, "X-Real-Ip", from, "Forwarded", "for=" + from},
		})
	}
	known, unknown := try(username, "wrong wrong wrong", "203.0.113.1"), try("nobody-"+username, "wrong wrong wrong", "203.0.113.1")
	if known.Body != unknown.Body || known.Status != unknown.Status || known.Status != http.StatusUnauthorized {
		t.Errorf("known user: got %d %s; unknown user: got %d %s", known.Status, known.Body, unknown.Status, unknown.Body)
	}
	n := 2
	limited := false
	for ; n < 40 && !limited; n++ {
		a := try(username, fmt.Sprintf("wrong password %d", n), fmt.Sprintf("203.0.113.%d", n))
		limited = a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") != ""
	}
	if !limited {
		t.Errorf("got no 429 after %d wrong passwords", n)
	}
	// The correct password is limited too, so the response reveals nothing.
	if a := try(username, password, "203.0.113.200"); a.Status != http.StatusTooManyRequests {
		t.Logf("correct password after the limit: %d", a.Status) // 200 if an attempt has become available
	}
	row.Measured(fmt.Sprintf("429 at attempt %d", n))
}

// TestGuessesDoNotLockOutUser is not parallel, because it can exhaust the sign-in limits of other tests' new
// users.
func TestGuessesDoNotLockOutUser(t *testing.T) {
	stacktest.Insides(t, "it connects from hundreds of loopback addresses")
	row := attacks.Test(t, "wrong passwords from 200 addresses and the user's own; wrong current passwords in a session",
		"known devices and addresses can always sign in; each address and session has ten attempts")
	_, username, password := person(t)
	home := client(t, "127.0.0.1")
	begin := time.Now()
	first := signIn(t, home, username, password, "")
	alone := time.Since(begin)
	if first.Status != http.StatusOK {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	var mine wire.OpenedSession
	check.OK(t, json.Unmarshal([]byte(first.Body), &mine))
	var crowd errgroup.Group
	for i := range 200 {
		attacker := client(t, fmt.Sprintf("127.9.0.%d", i+1))
		crowd.Go(func() error {
			for n := range 12 {
				a := signIn(t, attacker, username, fmt.Sprintf("wrong password %d", n), "")
				if a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
					return fmt.Errorf("guess: got %d %s", a.Status, a.Body)
				}
			}
			return nil
		})
	}
	over := make(chan error, 1)
	go func() { over <- crowd.Wait() }()
	elsewhere := client(t, "127.9.1.1")
	n := 0
	var slowest time.Duration
	good := func(from *http.Client, device string) {
		t.Helper()
		begin := time.Now()
		if a := signIn(t, from, username, password, device); a.Status != http.StatusOK {
			t.Errorf("correct password: got %d %s, want %d", a.Status, a.Body, http.StatusOK)
		}
		slowest = max(slowest, time.Since(begin))
		n++
	}
	for attacked := true; attacked || n < 10; {
		good(elsewhere, mine.Device)
		good(home, "")
		select {
		case err := <-over:
			if err != nil {
				t.Error(err)
			}
			attacked = false
		default:
		}
	}
	refused := 0
	for n := range 20 {
		if a := signIn(t, home, username, fmt.Sprintf("wrong password %d", n), ""); a.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("20 wrong passwords from the user's address: got no 429")
	}
	good(home, mine.Device)
	refused = 0
	for range 20 {
		body := `{"current_password":"not the current one","password":"another long password"}`
		a := call(t, request{method: http.MethodPut, path: "/api/v1/users/" + username + "/password", body: body, token: mine.Token})
		if a.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("20 wrong current passwords: got no 429")
	}
	good(home, mine.Device)
	// The limit is generous because the guesses slow this machine down. A throttled client would
	// wait for half a minute.
	if slowest > max(15*time.Second, 50*alone) {
		t.Errorf("sign-in took %s, without the crowd %s", slowest, alone)
	}
	t.Logf("signed in %d times, in at most %s; without the crowd in %s", n, slowest, alone)
	row.Measured("2440 guesses")
}

func client(t *testing.T, address string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	ingress := strings.TrimPrefix(world.Info().IngressURL, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", ingress) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: patience, Transport: stacktest.Described(transport)}
}

// signIn tries a password, and a device token if it is not "".
func signIn(t *testing.T, from *http.Client, username, password, device string) stacktest.Answer {
	t.Helper()
	in := wire.SignIn{Username: &username, Password: &password}
	if device != "" {
		in.Device = &device
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Error(err)
		return stacktest.Answer{}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, world.Info().BaseURL+"/api/v1/session", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return stacktest.Answer{}
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := stacktest.Do(from, req)
	if err != nil {
		t.Error(err)
	}
	return a
}
