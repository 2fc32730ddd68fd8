package attack

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// signer returns the installation's session key, as if an attacker had stolen it.
func signer(t *testing.T) (kid string, private ed25519.PrivateKey, public []byte) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(world.Info().LogsDir), "secrets", "session-keys")
	names, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no session keys in %s: %v", dir, err)
	}
	name := names[len(names)-1]
	text, err := os.ReadFile(name)
	check.OK(t, err)
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the session key is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	check.OK(t, err)
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		t.Fatalf("the session key is a %T", key)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	check.OK(t, err)
	return strings.TrimSuffix(filepath.Base(name), ".key"), private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

type object map[string]any

func (o object) with(name string, value any) object {
	c := object{}
	for k, v := range o {
		c[k] = v
	}
	if value == nil {
		delete(c, name)
	} else {
		c[name] = value
	}
	return c
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// unsigned returns a token without its signature.
func unsigned(t *testing.T, header, claims object) string {
	t.Helper()
	h, err := json.Marshal(header)
	check.OK(t, err)
	c, err := json.Marshal(claims)
	check.OK(t, err)
	return b64(h) + "." + b64(c)
}

func hs256(text string, key []byte) string {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return text + "." + b64(m.Sum(nil))
}

func TestForgedTokens(t *testing.T) {
	stacktest.Insides(t, "it signs with the session keys")
	t.Parallel()
	row := attacks.Test(t, "session tokens: `alg` none or HS256, forged `kid`, `jwk`, `jku`, `x5u`, `crit`; invalid claims",
		"401 from every function that requires a session")
	kid, private, public := signer(t)
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	check.OK(t, err)
	ed := func(key ed25519.PrivateKey, header, claims object) string {
		text := unsigned(t, header, claims)
		return text + "." + b64(ed25519.Sign(key, []byte(text)))
	}
	now := time.Now().Unix()
	header := object{"alg": "EdDSA", "typ": "JWT", "kid": kid}
	claims := object{
		"iss": "sluice", "sub": world.Info().Admin.Username, "jti": rand.Text(), "iat": now - 5, "exp": now + 600, "admin": true, "csrf": rand.Text(), "ver": 1,
	}
	real := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	parts := strings.Split(real, ".")
	var own object
	if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(text, &own) != nil {
		t.Fatalf("a session's claims: %v", err)
	}
	claims = claims.with("ver", own["ver"])
	sign := func(name string, value any) string { return ed(private, header, claims.with(name, value)) }
	raw := []byte(private.Public().(ed25519.PublicKey))
	jwk := object{"kty": "OKP", "crv": "Ed25519", "x": b64(foreign.Public().(ed25519.PublicKey))}
	tokens := map[string]string{
		"alg none":                 unsigned(t, header.with("alg", "none"), claims) + ".",
		"alg None":                 unsigned(t, header.with("alg", "None"), claims) + ".",
		"alg none, no dot":         unsigned(t, header.with("alg", "none"), claims),
		"alg empty":                unsigned(t, header.with("alg", ""), claims) + ".",
		"no alg":                   unsigned(t, header.with("alg", nil), claims) + "." + parts[2],
		"HS256, public key as PEM": hs256(unsigned(t, header.with("alg", "HS256"), claims), public),
		"HS256, public key raw":    hs256(unsigned(t, header.with("alg", "HS256"), claims), raw),
		"HS256, empty key":         hs256(unsigned(t, header.with("alg", "HS256"), claims), nil),
		"HS256 in an EdDSA header": hs256(unsigned(t, header, claims), public),
		"RS256":                    ed(private, header.with("alg", "RS256"), claims),
		"ES256":                    ed(private, header.with("alg", "ES256"), claims),
		"Ed25519":                  ed(private, header.with("alg", "Ed25519"), claims),
		"eddsa":                    ed(private, header.with("alg", "eddsa"), claims),
		"alg list":                 ed(private, header.with("alg", []string{"EdDSA"}), claims),
		"foreign key, our kid":     ed(foreign, header, claims),
		"foreign key, no kid":      ed(foreign, header.with("kid", nil), claims),
		"foreign key, empty kid":   ed(foreign, header.with("kid", ""), claims),
		"kid of a path":            ed(foreign, header.with("kid", "../../../../dev/null"), claims),
		"kid of a path to ours":    ed(private, header.with("kid", "./"+kid), claims),
		"kid with a suffix":        ed(private, header.with("kid", kid+".pub"), claims),
		"kid with NUL":             ed(private, header.with("kid", kid+"\x00"), claims),
		"kid in another case":      ed(private, header.with("kid", strings.ToUpper(kid)+"x"), claims),
		"kid as SQL":               ed(foreign, header.with("kid", "' OR 1=1 --"), claims),
		"kid as address":           ed(foreign, header.with("kid", "http://127.0.0.1/key"), claims),
		"kid a number":             ed(foreign, header.with("kid", 0), claims),
		"kid a list":               ed(private, header.with("kid", []string{kid}), claims),
		"jwk":                      ed(foreign, header.with("jwk", jwk), claims),
		"jwk, no kid":              ed(foreign, header.with("jwk", jwk).with("kid", nil), claims),
		"jku":                      ed(foreign, header.with("jku", "http://127.0.0.1:1/keys"), claims),
		"x5u":                      ed(foreign, header.with("x5u", "http://127.0.0.1:1/keys"), claims),
		"no signature":             parts[0] + "." + parts[1] + ".",
		"signature of another":     unsigned(t, header, claims) + "." + parts[2],
		"signature cut":            real[:len(real)-4],
		"signature padded":         real + "==",
		"signature of zeros":       parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)),
		"four parts":               real + ".x",
		"two parts":                parts[0] + "." + parts[1],
		"claims changed":           parts[0] + "." + b64([]byte(`{"admin":true}`)) + "." + parts[2],
		"expired":                  sign("exp", now-1),
		"expired long ago":         ed(private, header, claims.with("iat", now-90000).with("exp", now-50000)),
		"no expiry":                sign("exp", nil),
		"expiry as text":           sign("exp", "never"),
		"expiry far away":          sign("exp", now+10*365*86400),
		"expiry huge":              sign("exp", 1e300),
		"not before":               sign("nbf", now+3600),
		"from the future":          ed(private, header, claims.with("iat", now+3600).with("exp", now+7200)),
		"no iat":                   sign("iat", nil),
		"another issuer":           sign("iss", "evil"),
		"no issuer":                sign("iss", nil),
		"issuers":                  sign("iss", []string{"sluice"}),
		"no subject":               sign("sub", nil),
		"unknown user":             sign("sub", "nobody-at-all"),
		"subject of a path":        sign("sub", "../users/admin"),
		"subject with a slash":     sign("sub", "a/b"),
		"no jti":                   sign("jti", nil),
		"jti of a path":            sign("jti", "../../users/"+world.Info().Admin.Username),
		"no csrf":                  sign("csrf", nil),
		"another version":          sign("ver", 99),
		"version as text":          sign("ver", "1"),
		"JSON":                     `{"alg":"none"}`,
		"empty":                    "",
		"dots":                     "..",
		"spaces":                   " " + parts[0] + " ." + parts[1] + "." + parts[2],
		"5000 characters":          strings.Repeat("a", 5000),
		"JWS JSON":                 `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"unknown crit, no b64":     ed(foreign, header.with("crit", []string{"b64"}).with("b64", false), claims),
	}
	paths := []string{"/api/v1/session", "/api/v1/projects", "/api/v1/projects/x/api-keys", "/api/v1/projects/x/environments/y/apps/z/deployments"}
	for name, token := range tokens {
		for _, path := range paths {
			if a := call(t, request{path: path, header: []string{"Authorization", "Bearer " + token}}); a.Status != http.StatusUnauthorized {
				t.Errorf("%s, %s: got %d %s, want %d", name, path, a.Status, a.Body, http.StatusUnauthorized)
			}
		}
		if strings.ContainsAny(token, "\x00{ ") {
			continue
		}
		if a := call(t, request{path: "/api/v1/users", header: []string{"Cookie", identity.CookieName + "=" + token}}); a.Status != http.StatusUnauthorized {
			t.Errorf("%s as cookie: got %d %s, want %d", name, a.Status, a.Body, http.StatusUnauthorized)
		}
	}
	// The same claims with a valid signature are accepted.
	if a := call(t, request{path: "/api/v1/session", token: ed(private, header, claims)}); a.Status != http.StatusOK {
		t.Errorf("valid token: got %d %s, want %d", a.Status, a.Body, http.StatusOK)
	}
	row.Measured(fmt.Sprintf("%d tokens", len(tokens)))
}
