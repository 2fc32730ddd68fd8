package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/emulators/issuer"
	sluice "github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// issuers are CI systems that the installation trusts: a valid one, one with the same key, and
// misbehaving ones.
type issuers struct {
	address string
	well    *issuer.Issuer
	inside  chan string
}

const (
	wellPath, twinPath = "/well", "/twin"
	issuerPatience     = 8 * time.Second
)

var misbehaving = map[string]http.HandlerFunc{
	"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"/huge": func(w http.ResponseWriter, _ *http.Request) {
		for range 64 << 10 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
				return
			}
		}
	},
	"/redirect": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/inside/redirect", http.StatusFound)
	},
	"/elsewhere": func(w http.ResponseWriter, r *http.Request) {
		discovery(w, r, "/elsewhere", "http://localhost:"+port(r)+"/inside/keys")
	},
	"/keysaway": keysAway,
	"/manykeys": manyKeys,
	"/nonsense": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"issuer":[],"keys":7}`)) },
}

func port(r *http.Request) string { _, p, _ := net.SplitHostPort(r.Host); return p }

func discovery(w http.ResponseWriter, r *http.Request, path, keys string) {
	_ = json.NewEncoder(w).Encode(map[string]string{"issuer": "http://" + r.Host + path, "jwks_uri": keys})
}

func keysAway(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/keys") {
		http.Redirect(w, r, "/inside/keysaway", http.StatusTemporaryRedirect)
		return
	}
	discovery(w, r, "/keysaway", "http://"+r.Host+"/keysaway/keys")
}

func manyKeys(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/keys") {
		discovery(w, r, "/manykeys", "http://"+r.Host+"/manykeys/keys")
		return
	}
	_, _ = w.Write([]byte(`{"keys":[`))
	for n := range 20_000 {
		_, _ = fmt.Fprintf(w, `{"kty":"oct","kid":"k%d","k":"%s"},`, n, strings.Repeat("A", 300))
	}
	_, _ = w.Write([]byte(`{}]}`))
}

func newIssuers(listen string) (*issuers, []string, error) {
	i := &issuers{address: "http://" + listen, inside: make(chan string, 100)}
	well, err := issuer.New(i.address + wellPath)
	if err != nil {
		return nil, nil, err
	}
	i.well = well
	mux, believed := http.NewServeMux(), []string{i.address + wellPath, i.address + twinPath}
	mux.Handle(wellPath+"/", http.StripPrefix(wellPath, well))
	mux.HandleFunc(twinPath+"/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keys") {
			http.StripPrefix(twinPath, well).ServeHTTP(w, r)
			return
		}
		discovery(w, r, twinPath, i.address+twinPath+"/keys")
	})
	for path, answer := range misbehaving {
		mux.HandleFunc(path+"/", answer)
		believed = append(believed, i.address+path)
	}
	mux.HandleFunc("/inside/", func(w http.ResponseWriter, r *http.Request) {
		i.inside <- r.URL.Path
		well.ServeHTTP(w, r)
	})
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: issuerPatience}
	go func() { _ = server.Serve(listener) }()
	return i, believed, nil
}

// forger creates valid and forged pipeline tokens.
type forger struct {
	*testing.T
	kid     string
	private *ecdsa.PrivateKey
	claims  jwt.MapClaims
}

func newForger(t *testing.T, audience string) forger {
	t.Helper()
	kid, private := ci.well.Key()
	now := time.Now().Unix()
	claims := jwt.MapClaims(issuer.Claims("org/repo", "main", "deploy"))
	maps.Copy(claims, jwt.MapClaims{"iss": ci.address + wellPath, "aud": audience, "iat": now, "nbf": now, "exp": now + 300})
	return forger{t, kid, private, claims}
}

// sign creates a token with a changed header and claims; nil removes a member.
func (f forger) sign(method jwt.SigningMethod, key any, header, claims map[string]any) string {
	f.Helper()
	token := jwt.NewWithClaims(method, maps.Clone(f.claims))
	all, _ := token.Claims.(jwt.MapClaims)
	all["jti"], token.Header["kid"] = rand.Text(), f.kid
	for _, change := range []struct{ of, by map[string]any }{{token.Header, header}, {all, claims}} {
		maps.Copy(change.of, change.by)
		maps.DeleteFunc(change.of, func(_ string, v any) bool { return v == nil })
	}
	text, err := token.SignedString(key)
	check.OK(f, err)
	return text
}

func (f forger) ours(header, claims map[string]any) string {
	f.Helper()
	return f.sign(jwt.SigningMethodES256, f.private, header, claims)
}

func trusting(s *stacktest.Site, app, path string) {
	s.T.Helper()
	if _, err := s.Client.AddTrust(s.T.Context(), s.Project, s.Env, app, wire.AddTrust{
		Provider: "github", Issuer: ci.address + path, Claims: map[string]string{"repository": "org/repo", "ref": "refs/heads/main"},
	}); err != nil {
		s.T.Fatal(err)
	}
}

const secondImage = `{"image":"registry.example/echo:v2"}`

// trustingSite returns a site whose app "hello" trusts org/repo on main, and a forger for its
// webhook.
func trustingSite(t *testing.T) (s *stacktest.Site, f forger, address string) {
	t.Helper()
	s = stacktest.New(t, world)
	s.App("hello")
	trusting(s, "hello", wellPath)
	address, _ = s.Webhook("hello")
	s.Settled("hello", 1, "live")
	return s, newForger(t, address), address
}

func keyless(s *stacktest.Site, address, token, body string, header ...string) stacktest.Answer {
	s.T.Helper()
	return unflooded(s, address, body, append(header, "Authorization", "Bearer "+token)...)
}

// unflooded calls a webhook from another client address than the tests that flood it.
func unflooded(s *stacktest.Site, address, body string, header ...string) stacktest.Answer {
	s.T.Helper()
	info := world.Info()
	return s.Post(strings.Replace(address, info.BaseURL, info.Functions["webhook"], 1), []byte(body), append(header, "X-Forwarded-For", "198.51.100.7")...)
}

func unchanged(s *stacktest.Site, before stacktest.Snapshot) {
	s.T.Helper()
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		s.T.Errorf("changes (-before +after):\n%s", diff)
	}
}

// onlyItself checks that nothing has changed, that no internal address was called, and that the
// trusted pipeline can still deploy.
func onlyItself(s *stacktest.Site, f forger, before stacktest.Snapshot, address string) {
	s.T.Helper()
	unchanged(s, before)
	select {
	case path := <-ci.inside:
		s.T.Errorf("unexpected request to %s", path)
	default:
	}
	if a := keyless(s, address, f.ours(nil, nil), secondImage); a.Status != http.StatusAccepted {
		s.T.Errorf("the trusted pipeline: got %d %s, want %d", a.Status, a.Body, http.StatusAccepted)
	}
}

// members are members of a token's header or claims.
type members = map[string]any

// forgeries returns tokens that are invalid for an app that trusts org/repo on main.
func (f forger) forgeries() map[string]string {
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(f, err)
	now := time.Now().Unix()
	jwk := members{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}
	public := elliptic.Marshal(elliptic.P256(), f.private.X, f.private.Y) //nolint:staticcheck // the encoded point
	tokens := map[string]string{
		"alg none":           f.sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, nil),
		"HS256, public key":  f.sign(jwt.SigningMethodHS256, public, nil, nil),
		"HS256, empty key":   f.sign(jwt.SigningMethodHS256, []byte{}, nil, nil),
		"RS256 in name":      f.ours(members{"alg": "RS256"}, nil),
		"foreign key":        f.sign(jwt.SigningMethodES256, foreign, nil, nil),
		"no kid":             f.ours(members{"kid": nil}, nil),
		"kid of a path":      f.ours(members{"kid": "../../dev/null"}, nil),
		"kid a list":         f.ours(members{"kid": []string{f.kid}}, nil),
		"jwk":                f.sign(jwt.SigningMethodES256, foreign, members{"jwk": jwk}, nil),
		"jku":                f.sign(jwt.SigningMethodES256, foreign, members{"jku": ci.address + "/inside/jku"}, nil),
		"x5u":                f.sign(jwt.SigningMethodES256, foreign, members{"x5u": ci.address + "/inside/x5u"}, nil),
		"crit":               f.ours(members{"crit": []string{"x"}, "x": 1}, nil),
		"another type":       f.ours(members{"typ": "secevent+jwt"}, nil),
		"unknown issuer":     f.ours(nil, members{"iss": "https://ci.invalid"}),
		"an issuer's inside": f.ours(nil, members{"iss": ci.address + "/inside"}),
		"one key, two":       f.ours(nil, members{"iss": ci.address + twinPath}),
		"another audience":   f.ours(nil, members{"aud": "https://sluice.example.com"}),
		"no audience":        f.ours(nil, members{"aud": nil}),
		"ended":              f.ours(nil, members{"iat": now - 900, "nbf": now - 900, "exp": now - 90}),
		"no end":             f.ours(nil, members{"exp": nil}),
		"an end in a text":   f.ours(nil, members{"exp": fmt.Sprint(now + 300)}),
		"for a year":         f.ours(nil, members{"exp": now + 365*86400}),
		"not yet":            f.ours(nil, members{"nbf": now + 120}),
		"issued tomorrow":    f.ours(nil, members{"iat": now + 86400, "exp": now + 86700}),
		"another repository": f.ours(nil, members{"repository": "org/repo2"}),
		"another owner":      f.ours(nil, members{"repository": "evil/repo"}),
		"repository a list":  f.ours(nil, members{"repository": []string{"org/repo"}}),
		"no repository":      f.ours(nil, members{"repository": nil}),
		"another branch":     f.ours(nil, members{"ref": "refs/heads/main2"}),
		"a tag":              f.ours(nil, members{"ref": "refs/tags/main"}),
		"a pull request":     f.ours(nil, members{"ref": "refs/pull/7/merge"}),
		"anyone's code":      f.ours(nil, members{"event_name": "pull_request_target"}),
		"no event":           f.ours(nil, members{"event_name": nil}),
		"words":              "hello", "nothing": "", "long": strings.Repeat("a", 8<<10) + ".b.c",
	}
	good := f.ours(nil, nil)
	parts := strings.Split(good, ".")
	tokens["signature cut"] = good[:len(good)-4]
	tokens["signature padded"] = good + "=="
	tokens["no signature"] = parts[0] + "." + parts[1] + "."
	tokens["claims of another"] = parts[0] + "." + strings.Split(f.ours(nil, members{"sub": "x"}), ".")[1] + "." + parts[2]
	return tokens
}

func TestForgedPipelineTokens(t *testing.T) {
	stacktest.Insides(t, "it trusts the test's issuers")
	t.Parallel()
	row := attacks.Test(t, "pipeline tokens: forged headers; other issuer, audience, repository or ref; expired, not yet valid, valid for a year",
		"the same 401; nothing deployed; no address from a token is called")
	s, f, address := trustingSite(t)
	before := s.Snapshot()
	want := unflooded(s, address, secondImage, "X-Service-Token", "x")
	forgeries := f.forgeries()
	for name, token := range forgeries {
		if a := keyless(s, address, token, secondImage); a.Status != http.StatusUnauthorized || a.Body != want.Body {
			t.Errorf("%s: got %d %s", name, a.Status, a.Body)
		}
	}
	onlyItself(s, f, before, address)
	s.Settled("hello", 2, "live")
	row.Measured(fmt.Sprint(len(forgeries)))
}

func TestReplayedPipelineToken(t *testing.T) {
	stacktest.Insides(t, "it trusts the test's issuers")
	t.Parallel()
	row := attacks.Test(t, "replay of a keyless call: changed, or sent to other apps that trust the pipeline",
		"401, nothing deployed; the identical call with its `Idempotency-Key` gets the first response")
	s := stacktest.New(t, world)
	elsewhere := s.In("test")
	const audience = "everywhere"
	var addresses []string
	for _, at := range []struct {
		s   *stacktest.Site
		app string
	}{{s, "hello"}, {s, "other"}, {elsewhere, "hello"}} {
		at.s.App(at.app)
		if _, err := at.s.Client.AddTrust(t.Context(), at.s.Project, at.s.Env, at.app, wire.AddTrust{
			Issuer: ci.address + wellPath, Audience: audience, Claims: map[string]string{"repository": "org/repo"},
		}); err != nil {
			t.Fatal(err)
		}
		address, _ := at.s.Webhook(at.app)
		addresses = append(addresses, address)
	}
	token := newForger(t, audience).ours(nil, nil)
	const second = `{"image":"registry.example/echo:v3"}`
	first := keyless(s, addresses[0], token, secondImage, "Idempotency-Key", "run-1")
	if first.Status != http.StatusAccepted {
		t.Fatalf("first call: got %d %s, want %d", first.Status, first.Body, http.StatusAccepted)
	}
	s.Settled("hello", 2, "live")
	before := s.Snapshot()
	if a := keyless(s, addresses[0], token, secondImage, "Idempotency-Key", "run-1"); a.Body != first.Body {
		t.Errorf("identical call: got %d %s, want %s", a.Status, a.Body, first.Body)
	}
	n := 1
	for _, tt := range []struct {
		address, body string
		header        []string
	}{
		{addresses[0], secondImage, nil},
		{addresses[0], second, nil},
		{addresses[0], secondImage, []string{"Idempotency-Key", "run-2"}},
		{addresses[0], `{"ref":"refs/heads/main","after":"9fceb02d0ae598e95dc970b74767f19372d61af8"}`, []string{"X-GitHub-Event", "push"}},
		{addresses[0], `{}`, []string{"X-GitHub-Event", "ping"}},
		{addresses[1], secondImage, nil},
		{addresses[1], secondImage, []string{"Idempotency-Key", "run-1"}},
		{addresses[2], secondImage, nil},
	} {
		n++
		if a := keyless(s, tt.address, token, tt.body, tt.header...); a.Status != http.StatusUnauthorized {
			t.Errorf("%v: got %d %s, want %d", tt, a.Status, a.Body, http.StatusUnauthorized)
		}
	}
	unchanged(s, before)
	row.Measured(fmt.Sprint(n))
}

func TestHostileIssuers(t *testing.T) {
	stacktest.Insides(t, "it trusts the test's issuers")
	t.Parallel()
	row := attacks.Test(t, "issuers that are slow, send without end, redirect to internal addresses, or have 20,000 keys",
		"401 or 503 within seconds; nothing deployed; no internal address called; other pipelines work")
	s, f, address := trustingSite(t)
	for path := range misbehaving {
		trusting(s, "hello", path)
	}
	before := s.Snapshot()
	for path := range misbehaving {
		began := time.Now()
		a := keyless(s, address, f.ours(nil, members{"iss": ci.address + path}), secondImage)
		if a.Status != http.StatusServiceUnavailable && a.Status != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s", path, a.Status, a.Body)
		}
		if took := time.Since(began); took > issuerPatience {
			t.Errorf("%s: got a response after %s, want at most %s", path, took, issuerPatience)
		}
	}
	onlyItself(s, f, before, address)
	row.Measured(fmt.Sprint(len(misbehaving)))
}

func TestHostileTrusts(t *testing.T) {
	stacktest.Insides(t, "it trusts the test's issuers")
	t.Parallel()
	row := attacks.Test(t, "trusts without restriction; unknown, plain HTTP or internal issuers; too many trusts",
		"422 or 409; nothing stored")
	s := stacktest.New(t, world)
	s.App("hello")
	good := map[string]string{"repository": "org/repo"}
	well := ci.address + wellPath
	bad := []wire.AddTrust{
		{Issuer: well},
		{Issuer: well, Claims: map[string]string{"repository": ""}},
		{Issuer: well, Claims: map[string]string{"repository": "*"}},
		{Issuer: well, Claims: map[string]string{"repository": "**"}},
		{Issuer: well, Claims: map[string]string{"repository": "*/repo"}},
		{Issuer: well, Claims: map[string]string{"repository": "o*/**"}},
		{Issuer: well, Claims: map[string]string{"sub": "repo:*"}},
		{Issuer: well, Claims: map[string]string{"sub": "spiffe://**"}},
		{Issuer: well, Claims: map[string]string{"sub": "organization:**"}},
		{Issuer: well, Claims: map[string]string{"repository": "https://github.com/org/repo"}},
		{Issuer: well, Claims: map[string]string{"ref": "refs/heads/main"}},
		{Issuer: well, Claims: map[string]string{"repository": "org/repo", "aud": "x"}},
		{Issuer: well, Claims: map[string]string{"repository": "org/repo", "ref": "a\x00b"}},
		{Issuer: well, Audience: "a b\n", Claims: good},
		{Issuer: "http://169.254.169.254", Claims: good},
		{Issuer: "http://127.0.0.1:1", Claims: good},
		{Issuer: well + "/", Claims: good},
		{Issuer: "https://ci.invalid", Claims: good},
		{Provider: "github", Claims: good},
		{Provider: "forgejo", Claims: good},
		{Provider: "hub", Issuer: well, Claims: good},
	}
	for _, trust := range bad {
		_, err := s.Client.AddTrust(t.Context(), s.Project, s.Env, "hello", trust)
		var e *sluice.Error
		if !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity {
			t.Errorf("%+v: %v", trust, err)
		}
	}
	for n := range 11 {
		_, err := s.Client.AddTrust(t.Context(), s.Project, s.Env, "hello", wire.AddTrust{Issuer: well, Claims: map[string]string{"repository": fmt.Sprintf("org/repo%d", n)}})
		if (err != nil) != (n == 10) || n == 10 && !sluice.HasCode(err, "too_many_trusts") {
			t.Errorf("trust %d: %v", n, err)
		}
	}
	row.Measured(fmt.Sprint(len(bad) + 11))
}
