package issuers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	ci "github.com/sluicegate/sluice/emulators/issuer"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	home     = "https://ci.example.com"
	audience = "https://sluice.example.com/hook"
)

// system is a CI system without a network, whose responses can be replaced.
type system struct {
	*ci.Issuer

	asked atomic.Int64

	mu    sync.Mutex
	spoil http.HandlerFunc // responds instead, unless nil
}

func (s *system) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	s.mu.Lock()
	answer := s.spoil
	s.mu.Unlock()
	if answer == nil {
		answer = s.ServeHTTP
	}
	w := httptest.NewRecorder()
	answer(w, r)
	if w.Code == 0 || w.Header().Get("Broken") != "" {
		return nil, fmt.Errorf("no answer")
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (s *system) spoiled(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = answer
}

func broken(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Broken", "yes") }

func world(t *testing.T) (*Issuers, *system) {
	t.Helper()
	i, err := ci.New(home)
	check.OK(t, err)
	s := &system{Issuer: i}
	is, err := New([]string{home}, s, slog.New(slog.DiscardHandler), time.Now)
	check.OK(t, err)
	return is, s
}

func (s *system) token(t *testing.T, change map[string]any) string {
	t.Helper()
	claims := ci.Claims("org/repo", "main", "deploy")
	maps.Copy(claims, change)
	token, err := s.Token(audience, claims)
	check.OK(t, err)
	return token
}

func TestVerify(t *testing.T) {
	t.Parallel()
	is, s := world(t)
	p, err := is.Verify(t.Context(), s.token(t, map[string]any{"jti": "t1", "run_number": 12, "protected": true, "list": []string{"x"}}))
	check.OK(t, err)
	if p.Issuer != home || p.TokenID != "t1" || len(p.Audience) != 1 || p.Audience[0] != audience || p.Claims["repository"] != "org/repo" || p.Claims["run_number"] != "12" || p.Claims["protected"] != "true" {
		t.Errorf("%+v", p)
	}
	if _, ok := p.Claims["list"]; ok {
		t.Error("a list claim has a text")
	}
	one, err := is.Verify(t.Context(), s.token(t, map[string]any{"jti": nil}))
	if err != nil || len(one.TokenID) != 64 {
		t.Errorf("token without an ID: got ID %q, %v", one.TokenID, err)
	}
	if n := s.asked.Load(); n != 2 {
		t.Errorf("requests: got %d, want 2 (discovery and keys)", n)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	is, s := world(t)
	if _, err := is.Verify(t.Context(), s.token(t, nil)); err != nil {
		t.Fatal(err)
	}
	unknownKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	kid, private := s.Key()
	good := jwt.MapClaims{"iss": home, "aud": audience, "jti": "x", "iat": now, "exp": now + 300, "sub": "x"}
	forge := func(method jwt.SigningMethod, key any, header map[string]any, change map[string]any) string {
		claims := maps.Clone(good)
		maps.Copy(claims, change)
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = kid
		maps.Copy(token.Header, header)
		for name, value := range header {
			if value == nil {
				delete(token.Header, name)
			}
		}
		text, err := token.SignedString(key)
		check.OK(t, err)
		return text
	}
	ours := func(header, change map[string]any) string {
		return forge(jwt.SigningMethodES256, private, header, change)
	}
	if _, err := is.Verify(t.Context(), ours(nil, nil)); err != nil {
		t.Fatalf("valid token: %v", err)
	}
	valid := ours(nil, nil)
	for name, token := range map[string]string{
		"nothing":                  "",
		"words":                    "hello",
		"long":                     valid + strings.Repeat("x", maxToken),
		"padded":                   valid + "=",
		"a line after":             valid + "\n",
		"alg none":                 forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, nil),
		"alg HS256":                forge(jwt.SigningMethodHS256, []byte("x"), nil, nil),
		"alg of another":           ours(map[string]any{"alg": "RS256"}, nil),
		"alg a list":               ours(map[string]any{"alg": []string{"ES256"}}, nil),
		"no kid":                   ours(map[string]any{"kid": nil}, nil),
		"kid empty":                ours(map[string]any{"kid": ""}, nil),
		"kid a number":             ours(map[string]any{"kid": 1}, nil),
		"kid of nobody":            ours(map[string]any{"kid": "nobody"}, nil),
		"unknown key":              forge(jwt.SigningMethodES256, unknownKey, nil, nil),
		"jwk":                      ours(map[string]any{"jwk": map[string]any{}}, nil),
		"jku":                      ours(map[string]any{"jku": "http://127.0.0.1:1/"}, nil),
		"x5u":                      ours(map[string]any{"x5u": "http://127.0.0.1:1/"}, nil),
		"x5c":                      ours(map[string]any{"x5c": []string{}}, nil),
		"crit":                     ours(map[string]any{"crit": []string{"b64"}}, nil),
		"another type":             ours(map[string]any{"typ": "at+jwt"}, nil),
		"another issuer":           ours(nil, map[string]any{"iss": "https://ci.example.org"}),
		"issuer with a slash":      ours(nil, map[string]any{"iss": home + "/"}),
		"issuer a list":            ours(nil, map[string]any{"iss": []string{home}}),
		"no issuer":                ours(nil, map[string]any{"iss": nil}),
		"no audience":              ours(nil, map[string]any{"aud": nil}),
		"audience a number":        ours(nil, map[string]any{"aud": 1}),
		"ended":                    ours(nil, map[string]any{"iat": now - 600, "exp": now - 61}),
		"no end":                   ours(nil, map[string]any{"exp": nil}),
		"end a text":               ours(nil, map[string]any{"exp": "soon"}),
		"not yet":                  ours(nil, map[string]any{"nbf": now + 90}),
		"issued later":             ours(nil, map[string]any{"iat": now + 90}),
		"not issued":               ours(nil, map[string]any{"iat": nil}),
		"good for two days":        ours(nil, map[string]any{"exp": now + 48*3600}),
		"ends before it is issued": ours(nil, map[string]any{"iat": now + 30, "exp": now}),
		"id a number":              ours(nil, map[string]any{"jti": 1}),
		"id empty":                 ours(nil, map[string]any{"jti": ""}),
		"id long":                  ours(nil, map[string]any{"jti": strings.Repeat("x", maxText+1)}),
	} {
		if _, err := is.Verify(t.Context(), token); !problem.Is(err, problem.InvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.asked.Load(); n > 2 {
		t.Errorf("requests: got %d, want 2", n)
	}
}

func TestClockSkewIsTolerated(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	is, s := world(t)
	for name, change := range map[string]map[string]any{
		"ended a moment ago": {"iat": now - 300, "exp": now - 30},
		"begins in a moment": {"iat": now + 30, "nbf": now + 30},
	} {
		if _, err := is.Verify(t.Context(), s.token(t, change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A new key is read when a token names it. A withdrawn key is rejected once the keys are read
// again.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is, s := world(t)
		old := s.token(t, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
		if _, err := is.Verify(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		check.OK(t, s.Rotate())
		s.Withdraw()
		if _, err := is.Verify(t.Context(), s.token(t, nil)); !problem.Is(err, problem.InvalidToken) {
			t.Errorf("current key: %v", err)
		}
		if _, err := is.Verify(t.Context(), old); err != nil {
			t.Errorf("old key before the keys are read again: %v", err)
		}
		time.Sleep(minInterval)
		if _, err := is.Verify(t.Context(), s.token(t, nil)); err != nil {
			t.Errorf("new key after the shortest interval: %v", err)
		}
		if _, err := is.Verify(t.Context(), old); !problem.Is(err, problem.InvalidToken) {
			t.Errorf("old key after the keys were read again: got %v", err)
		}
		check.OK(t, s.Rotate())
		s.Withdraw()
		time.Sleep(rediscoverAfter)
		asked := s.asked.Load()
		if _, err := is.Verify(t.Context(), s.token(t, nil)); err != nil || s.asked.Load() != asked+2 {
			t.Errorf("after %s: %v, %d requests", rediscoverAfter, err, s.asked.Load()-asked)
		}
	})
}

func TestFloodCausesFewKeyDownloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is, s := world(t)
		good := s.token(t, nil)
		if _, err := is.Verify(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(good, ".")
		for n := range 1000 {
			header := fmt.Sprintf(`{"alg":"ES256","kid":"made-up-%d"}`, n)
			token := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
			if _, err := is.Verify(t.Context(), token); !problem.Is(err, problem.InvalidToken) {
				t.Fatalf("made-up key ID: got %v", err)
			}
			if n%100 == 0 {
				time.Sleep(time.Second)
			}
			if _, err := is.Verify(t.Context(), good); err != nil {
				t.Fatalf("valid token during the flood: %v", err)
			}
		}
		if n := s.asked.Load(); n > 4 {
			t.Errorf("requests in ten seconds: got %d, want at most 4", n)
		}
	})
}

// Calls fail within a bounded time, and succeed once discovery works again.
func TestIssuerTrouble(t *testing.T) {
	t.Parallel()
	elsewhere := func(keys string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": home, "jwks_uri": keys})
		}
	}
	for name, spoil := range map[string]http.HandlerFunc{
		"down":     broken,
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), outbound.MaxAnswer+1))
		},
		"slow":            func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"keys inside":     elsewhere("http://169.254.169.254/keys"),
		"keys elsewhere":  elsewhere("https://ci.example.org/keys"),
		"keys, with user": elsewhere("https://x@ci.example.com/keys"),
		"keys nowhere":    elsewhere(""),
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"https://x","jwks_uri":"` + home + `/keys"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				is, s := world(t)
				s.spoiled(spoil)
				began := time.Now()
				if _, err := is.Verify(t.Context(), s.token(t, nil)); !problem.Is(err, problem.Unavailable) {
					t.Errorf("first call: got %v", err)
				}
				if took := time.Since(began); took > outbound.Patience {
					t.Errorf("took %s", took)
				}
				asked := s.asked.Load()
				for range 100 {
					if _, err := is.Verify(t.Context(), s.token(t, nil)); !problem.Is(err, problem.Unavailable) {
						t.Fatalf("later call: got %v", err)
					}
				}
				if n := s.asked.Load() - asked; n > 0 {
					t.Errorf("%d more requests", n)
				}
				s.spoiled(nil)
				time.Sleep(minInterval)
				if _, err := is.Verify(t.Context(), s.token(t, nil)); err != nil {
					t.Errorf("after recovery: %v", err)
				}
			})
		})
	}
}

func TestKeysTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is, s := world(t)
		s.spoiled(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/keys") {
				broken(w, r)
				return
			}
			s.ServeHTTP(w, r)
		})
		for range 10 {
			if _, err := is.Verify(t.Context(), s.token(t, nil)); !problem.Is(err, problem.Unavailable) {
				t.Fatalf("without keys: got %v", err)
			}
		}
		if n := s.asked.Load(); n != 2 {
			t.Errorf("requests: got %d, want 2", n)
		}
		s.spoiled(nil)
		time.Sleep(minInterval)
		if _, err := is.Verify(t.Context(), s.token(t, nil)); err != nil {
			t.Errorf("after recovery: %v", err)
		}
	})
}

func TestTwoIssuersWithOneKey(t *testing.T) {
	t.Parallel()
	const other = "https://ci.example.org"
	i, err := ci.New(home)
	check.OK(t, err)
	is, err := New([]string{home, other}, &system{Issuer: i}, slog.New(slog.DiscardHandler), time.Now)
	check.OK(t, err)
	token, err := i.Token(audience, map[string]any{"iss": other, "repository": "org/repo", "sub": "x"})
	check.OK(t, err)
	// The first issuer responds to the discovery of the other.
	if p, err := is.Verify(t.Context(), token); err == nil {
		t.Errorf("accepted %+v, want an error", p)
	}
	trust := app.Trust{Provider: app.Other, Issuer: home, Audience: audience, Claims: map[string]string{"sub": "x"}}
	if trust.Matches(app.Pipeline{Issuer: other, Audience: []string{audience}, Claims: map[string]string{"sub": "x"}}) {
		t.Error("a trust in one issuer matches a pipeline of another")
	}
}

func TestIssuersAddresses(t *testing.T) {
	t.Parallel()
	if _, err := New([]string{"http://ci.example.com"}, http.DefaultTransport, slog.New(slog.DiscardHandler), time.Now); err == nil {
		t.Error("accepted an issuer on plain HTTP")
	}
}
