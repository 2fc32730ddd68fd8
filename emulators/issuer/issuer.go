// Package issuer emulates a CI system that issues tokens to its pipelines, like GitHub Actions:
// discovery, keys, and the address at which a job requests a token.
//
// It authenticates nobody: [RequestToken] accepts any claims. Run it only on loopback.
package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

// Lifetime is the lifetime of a token.
const Lifetime = 5 * time.Minute

// Issuer is an issuer and its HTTP handler.
type Issuer struct {
	address string
	mux     http.ServeMux
	now     func() time.Time

	mu   sync.Mutex
	keys []key // the last one signs
}

type key struct {
	id      string
	private *ecdsa.PrivateKey
}

// New returns an issuer with one key and an address such as "http://127.0.0.1:8090".
func New(address string) (*Issuer, error) {
	i := &Issuer{address: address, now: time.Now}
	i.mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	i.mux.HandleFunc("GET /keys", i.showKeys)
	i.mux.HandleFunc("GET /token", i.issue)
	return i, i.Rotate()
}

// ServeHTTP implements [http.Handler].
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) { i.mux.ServeHTTP(w, r) }

// Rotate creates a new signing key. Previous keys remain published.
func (i *Issuer) Rotate() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make an issuer's key: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key{rand.Text(), private})
	return nil
}

// Withdraw removes all keys except the newest one.
func (i *Issuer) Withdraw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = i.keys[len(i.keys)-1:]
}

// Key returns the signing key and its ID.
func (i *Issuer) Key() (id string, private *ecdsa.PrivateKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := i.keys[len(i.keys)-1]
	return k.id, k.private
}

// Token returns a token with the given claims, which override the issuer's own.
func (i *Issuer) Token(audience string, claims map[string]any) (string, error) {
	now := i.now()
	all := jwt.MapClaims{
		"iss": i.address, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(Lifetime).Unix(),
	}
	maps.Copy(all, claims)
	id, private := i.Key()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, all)
	token.Header["kid"] = id
	return token.SignedString(private)
}

// Claims returns the claims of a job, as in GitHub Actions.
func Claims(repository, branch, workflow string) map[string]any {
	ref := "refs/heads/" + branch
	owner, _, _ := strings.Cut(repository, "/")
	return map[string]any{
		"sub": "repo:" + repository + ":ref:" + ref, "repository": repository, "repository_owner": owner, "ref": ref, "ref_type": "branch",
		"workflow": workflow, "actor": "ada", "event_name": "push", "run_id": "1", "run_attempt": "1",
	}
}

// RequestToken returns the token with which a job requests its tokens.
func RequestToken(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(text), err
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer": i.address, "jwks_uri": i.address + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
	})
}

func (i *Issuer) showKeys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	var set jose.JSONWebKeySet
	for _, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: crypto.PublicKey(&k.private.PublicKey), KeyID: k.id, Algorithm: "ES256", Use: "sig"})
	}
	i.mu.Unlock()
	writeJSON(w, set)
}

func (i *Issuer) issue(w http.ResponseWriter, r *http.Request) {
	var claims map[string]any
	request := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	text, err := base64.RawURLEncoding.DecodeString(request)
	if err != nil || json.Unmarshal(text, &claims) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token, err := i.Token(r.URL.Query().Get("audience"), claims)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	writeJSON(w, map[string]any{"value": token})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client is gone
}
