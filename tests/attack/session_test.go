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

// person is a user of their own who owns a project of their own.
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

// TestCSRF: what another site's page can make a browser send.
func TestCSRF(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "CSRF: changes by cookie without the CSRF value, with another session's, an empty one, as a form, and by GET; sign-in by a form",
		"403 `csrf_required` (415 for forms) and nothing stored; the cookie is HttpOnly, Secure and SameSite")
	s, username, password := person(t)
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
	a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body})
	var mine wire.OpenedSession
	check.OK(t, json.Unmarshal([]byte(a.Body), &mine))
	cookie := a.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "Secure", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q is not %s", cookie, want)
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
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if a := send(http.MethodDelete, "/api/v1/session", "application/json", "", csrf...); a.Status != http.StatusForbidden {
			t.Errorf("sign-out, %s: %d %s", name, a.Status, a.Body)
		}
	}
	for _, form := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		if a := send(http.MethodPost, plans, form, plan, mine.CSRFToken); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", form, a.Status, a.Body)
		}
		if a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body, header: []string{"Content-Type", form}}); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("sign-in as %s: %d %s", form, a.Status, a.Body)
		}
	}
	recorded := "/api/v1/projects/" + s.Project + "/requests/nobodys" // the audit log records the call
	for want, csrf := range map[int][]string{http.StatusForbidden: nil, http.StatusOK: {mine.CSRFToken}} {
		if a := send(http.MethodGet, recorded, "application/json", "", csrf...); a.Status != want {
			t.Errorf("a recorded GET with the CSRF value %q: %d %s", csrf, a.Status, a.Body)
		}
	}
	for _, h := range []string{"X-HTTP-Method-Override", "X-Method-Override"} {
		if a := call(t, request{path: plans, header: []string{"Cookie", identity.CookieName + "=" + mine.Token, h, "POST"}}); a.Status != http.StatusOK {
			t.Errorf("GET with %s: %d %s", h, a.Status, a.Body)
		}
	}
	s.OnlyHas(0, 0, 0)
	if a := send(http.MethodPost, plans, "application/json", plan, mine.CSRFToken); a.Status != http.StatusCreated {
		t.Errorf("with the right value: %d %s", a.Status, a.Body)
	}
	if allow := a.Header.Get("Access-Control-Allow-Origin"); allow != "" {
		t.Errorf("the API allows the origin %q", allow)
	}
	row.Measured("19")
}

// TestFixation: a session that somebody else chose.
func TestFixation(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "session fixation: signing in with a cookie planted before; cookies of two people; dead, forged and unprefixed ones beside one's own; cookie and bearer token of two people",
		"each sign-in makes a new session, in a `__Host-` cookie that no other host can set; cookies of two people are 401; what is not good beside one's own does no harm; the bearer token counts alone")
	_, username, password := person(t)
	planted := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
	a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: body, header: []string{"Cookie", identity.CookieName + "=" + planted}})
	var mine wire.OpenedSession
	if err := json.Unmarshal([]byte(a.Body), &mine); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if mine.Token == planted || mine.User.Username != username {
		t.Errorf("signed in as %+v, with the planted token: %t", mine.User, mine.Token == planted)
	}
	if again := bearer(t, username, password); again == mine.Token {
		t.Error("two sign-ins give one token")
	}
	if cookie := a.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-") {
		t.Errorf("the cookie %q can be set by other hosts", cookie)
	}
	own, others := identity.CookieName+"="+mine.Token, identity.CookieName+"="+planted
	for _, both := range []string{others + "; " + own, own + "; " + others} {
		if a := call(t, request{path: "/api/v1/session", header: []string{"Cookie", both}}); a.Status != http.StatusUnauthorized {
			t.Errorf("cookies of two people: %d %s", a.Status, a.Body)
		}
	}
	dead := bearer(t, username, password)
	if a := call(t, request{method: http.MethodDelete, path: "/api/v1/session", token: dead}); a.Status != http.StatusNoContent {
		t.Fatalf("sign out: %d %s", a.Status, a.Body)
	}
	for _, beside := range []string{identity.CookieName + "=" + dead, identity.CookieName + "=x.y.z", "sluice_session=" + planted} {
		a := call(t, request{path: "/api/v1/session", header: []string{"Cookie", beside + "; " + own}})
		if a.Status != http.StatusOK || !strings.Contains(a.Body, `"`+username+`"`) {
			t.Errorf("beside %.30s…: %d %s", beside, a.Status, a.Body)
		}
	}
	a = call(t, request{path: "/api/v1/session", token: mine.Token, header: []string{"Cookie", identity.CookieName + "=" + planted}})
	if !strings.Contains(a.Body, `"`+username+`"`) {
		t.Errorf("bearer and cookie: %d %s", a.Status, a.Body)
	}
	for _, where := range []string{"?token=", "?access_token=", "?sluice_session="} {
		if a := call(t, request{path: "/api/v1/session" + where + url.QueryEscape(mine.Token)}); a.Status != http.StatusUnauthorized {
			t.Errorf("token in the address: %d", a.Status)
		}
	}
	row.Measured("11")
}

// TestReplay: tokens whose time is over.
func TestReplay(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "replay of a session after sign-out, after a change of the password, and after the user was taken out of the project",
		"401 at once, at every function; 403 for what the project held")
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
				t.Errorf("%s, %s: %d %s", when, path, a.Status, a.Body)
			}
		}
	}
	dead := func(status int) bool { return status == http.StatusUnauthorized }
	alive := func(status int) bool { return status == http.StatusOK || status == http.StatusNotFound }
	all(first, alive, "before")
	if a := call(t, request{method: http.MethodDelete, path: "/api/v1/session", token: first}); a.Status != http.StatusNoContent {
		t.Fatalf("sign out: %d %s", a.Status, a.Body)
	}
	all(first, dead, "after sign-out")
	all(second, alive, "another session, after the sign-out of the first")
	check.OK(t, s.Client.ResetPassword(t.Context(), username, "another password of "+s.Project))
	all(second, dead, "after a change of the password")
	third := bearer(t, username, "another password of "+s.Project)
	all(third, alive, "signed in again")
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: world.Info().Admin.Username, Role: "owner"}}))
	paths = paths[2:]
	all(third, func(status int) bool { return status == http.StatusForbidden }, "no member any more")
	row.Measured(fmt.Sprintf("%d", 5*(len(paths)+2)+len(paths)))
}

// TestSignInGuessing: one password after the other.
func TestSignInGuessing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "guessing a password, from ever new addresses in `X-Forwarded-For`; finding out which users exist",
		"429 with `Retry-After` after ten failures; an unknown user gets the same answer")
	_, username, password := person(t)
	try := func(name, pass, from string) stacktest.Answer {
		return call(t, request{
			method: http.MethodPost, path: "/api/v1/session", body: fmt.Sprintf(`{"username":%q,"password":%q}`, name, pass),
			header: []string{"X-Forwarded-For", from, "X-Real-Ip", from, "Forwarded", "for=" + from},
		})
	}
	known, unknown := try(username, "wrong wrong wrong", "203.0.113.1"), try("nobody-"+username, "wrong wrong wrong", "203.0.113.1")
	if known.Body != unknown.Body || known.Status != unknown.Status || known.Status != http.StatusUnauthorized {
		t.Errorf("a known user: %d %s, an unknown one: %d %s", known.Status, known.Body, unknown.Status, unknown.Body)
	}
	n := 2
	limited := false
	for ; n < 40 && !limited; n++ {
		a := try(username, fmt.Sprintf("wrong password %d", n), fmt.Sprintf("203.0.113.%d", n))
		limited = a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") != ""
	}
	if !limited {
		t.Errorf("%d wrong passwords were let through", n)
	}
	// What is limited is limited for the right password too: no oracle is left.
	if a := try(username, password, "203.0.113.200"); a.Status != http.StatusTooManyRequests {
		t.Logf("the right password after the limit: %d", a.Status) // a slot came free meanwhile
	}
	row.Measured(fmt.Sprintf("429 at attempt %d", n))
}

// TestKeptOut: wrong passwords, so that the right one is not let in. It is not parallel:
// meanwhile strangers, as other tests' new users are, may be told to come again.
func TestKeptOut(t *testing.T) {
	stacktest.Insides(t, "it comes from hundreds of loopback addresses")
	row := attacks.Test(t, "keeping a user signed out: wrong passwords from 200 addresses at once, and from next to the user, while the user signs in; the same of one's own session guessing at the current password",
		"where the user has signed in before, by device or from that address, the right password is let in each time and at once; each address is held to ten failures, and so is the session")
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
		stranger := client(t, fmt.Sprintf("127.9.0.%d", i+1))
		crowd.Go(func() error {
			for n := range 12 {
				a := signIn(t, stranger, username, fmt.Sprintf("wrong password %d", n), "")
				if a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
					return fmt.Errorf("a guess: %d %s", a.Status, a.Body)
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
			t.Errorf("the right password: %d %s", a.Status, a.Body)
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
		t.Error("20 wrong passwords from the user's own address were let through")
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
		t.Error("20 wrong current passwords were let through")
	}
	good(home, mine.Device)
	// The crowd's requests take their part of this machine, which is the clients' too; who is
	// held up by a throttle waits for half a minute.
	if slowest > max(15*time.Second, 50*alone) {
		t.Errorf("signing in took %s, alone %s", slowest, alone)
	}
	t.Logf("signed in %d times, in %s at most; alone in %s", n, slowest, alone)
	row.Measured("2440 guesses")
}

// client connects to the ingress from an address of this machine's own.
func client(t *testing.T, address string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	ingress := strings.TrimPrefix(world.Info().IngressURL, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", ingress) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: patience, Transport: stacktest.Described(transport)}
}

// signIn tries a password, with what a device was given, if that is not "".
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
