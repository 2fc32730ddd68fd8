package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	c := newClock()
	c.advance(123 * time.Millisecond)
	k := testKeyring(t, c, "a")
	s := NewSession(Caller{Username: "ada.l-1", Admin: true}, 7, c.now())
	token, err := k.Sign(s)
	check.OK(t, err)
	got, err := k.Verify(token)
	check.OK(t, err)
	s.Caller.Admin = false // unknown; see [Guard]
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("session (-signed +verified):\n%s", diff)
	}
	if ttl := got.ExpiresAt.Sub(got.IssuedAt); ttl != 12*time.Hour {
		t.Errorf("a session lasts %s, want 12h", ttl)
	}
}

func TestTokenEndsWithItsTime(t *testing.T) {
	t.Parallel()
	c := newClock()
	k := testKeyring(t, c, "a")
	token := sign(t, k, c.now())
	c.advance(SessionTTL - time.Second)
	if _, err := k.Verify(token); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	c.advance(time.Second)
	_, err := k.Verify(token)
	wantCode(t, err, problem.Unauthenticated)
}

func payload(now time.Time) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": issuer, "sub": "ada", "jti": strings.Repeat("A", 26), "csrf": "x", "ver": 1,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	c := newClock()
	k := testKeyring(t, c, "a")
	key, _, err := k.signer()
	check.OK(t, err)
	_, unknownKey, err := ed25519.GenerateKey(nil)
	check.OK(t, err)
	public := k.keys.public["a"]
	forge := func(method jwt.SigningMethod, key any, kid any, change jwt.MapClaims) string {
		p := payload(c.now())
		for name, v := range change {
			if p[name] = v; v == nil {
				delete(p, name)
			}
		}
		token := jwt.NewWithClaims(method, p)
		if kid != nil {
			token.Header["kid"] = kid
		}
		signed, err := token.SignedString(key)
		check.OK(t, err)
		return signed
	}
	spoiled := func(change jwt.MapClaims) string { return forge(jwt.SigningMethodEdDSA, key, "a", change) }
	good := spoiled(nil)
	if _, err := k.Verify(Token(good)); err != nil {
		t.Fatalf("valid token: %v", err)
	}
	parts := strings.Split(good, ".")
	admin := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"sluice","sub":"ada","admin":true}`))
	tests := []struct{ name, token string }{
		{"nothing", ""},
		{"no JWT", "hello"},
		{"no signature", parts[0] + "." + parts[1] + "."},
		{"another payload", parts[0] + "." + admin + "." + parts[2]},
		{"a longer one", good + "A"},
		{"one part too many", good + ".A"},
		{"too long", good + strings.Repeat("A", maxToken)},
		{"algorithm none", forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "a", nil)},
		{"HMAC with the public key", forge(jwt.SigningMethodHS256, []byte(public), "a", nil)},
		{"an unknown key", forge(jwt.SigningMethodEdDSA, unknownKey, "a", nil)},
		{"no kid", forge(jwt.SigningMethodEdDSA, key, nil, nil)},
		{"a kid that is not a string", forge(jwt.SigningMethodEdDSA, key, 1, nil)},
		{"an unknown kid", forge(jwt.SigningMethodEdDSA, key, "b", nil)},
		{"a kid that is a path", forge(jwt.SigningMethodEdDSA, key, "../a", nil)},
		{"another issuer", spoiled(jwt.MapClaims{"iss": "someone"})},
		{"no issuer", spoiled(jwt.MapClaims{"iss": nil})},
		{"no expiry", spoiled(jwt.MapClaims{"exp": nil})},
		{"expired", spoiled(jwt.MapClaims{"exp": c.now().Unix(), "iat": c.now().Add(-time.Hour).Unix()})},
		{"no issue time", spoiled(jwt.MapClaims{"iat": nil})},
		{"from the future", spoiled(jwt.MapClaims{"iat": c.now().Add(clockSkew + time.Second).Unix()})},
		{"not valid yet", spoiled(jwt.MapClaims{"nbf": c.now().Add(time.Hour).Unix()})},
		{"lasting too long", spoiled(jwt.MapClaims{"exp": c.now().Add(SessionTTL + time.Second).Unix()})},
		{"no user", spoiled(jwt.MapClaims{"sub": nil})},
		{"a user that is a path", spoiled(jwt.MapClaims{"sub": "../ada"})},
		{"no id", spoiled(jwt.MapClaims{"jti": nil})},
		{"an id that is a path", spoiled(jwt.MapClaims{"jti": "../../users/ada"})},
		{"no CSRF value", spoiled(jwt.MapClaims{"csrf": nil})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := k.Verify(Token(tt.token))
			wantCode(t, err, problem.Unauthenticated)
			if diff := cmp.Diff(Session{}, s); diff != "" {
				t.Errorf("a rejected token returns a session:\n%s", diff)
			}
		})
	}
}

func TestTokenIsNeverPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "token", Token("secret"), "error", errors.New(fmt.Sprint(Token("secret"))))
	fmt.Fprintf(&out, "%v %s %#v %+v", Token("secret"), Token("secret"), Token("secret"), struct{ T Token }{"secret"})
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a token was printed: %s", out.String())
	}
}

func TestSessionIDsAreValid(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		s := NewSession(Caller{Username: "ada"}, 1, newClock().now())
		if !validSessionID(s.ID) || s.CSRF == s.ID || seen[s.ID] || seen[s.CSRF] {
			t.Fatalf("session id %q, CSRF value %q", s.ID, s.CSRF)
		}
		seen[s.ID], seen[s.CSRF] = true, true
	}
}

func FuzzVerify(f *testing.F) {
	c := newClock()
	k := testKeyring(f, c, "a")
	good := string(sign(f, k, c.now()))
	f.Add(good)
	f.Add("a.b.c")
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := k.Verify(Token(token)); err == nil && token != good {
			t.Errorf("accepted a token that was never signed: %q", token)
		}
	})
}
