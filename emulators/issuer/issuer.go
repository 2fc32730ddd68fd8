// Package issuer plays a CI system that issues tokens to its pipelines, as GitHub Actions
// does: discovery and keys for whoever verifies them, and an address at which a job asks for
// a token, as a runner's ACTIONS_ID_TOKEN_REQUEST_URL is.
//
// It proves nothing to nobody: the request token of a job, which a real runner gets from its
// system, is made by [RequestToken] from what the job claims to be. So it belongs on
// loopback, and into no installation.
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

// Lifetime is how long a token is good for, as a job of GitHub Actions gets it.
const Lifetime = 5 * time.Minute

// Issuer is one; it is the handler of what is below its address.
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

// New makes an issuer with one key, known by its address, e.g. "http://127.0.0.1:8090".
func New(address string) (*Issuer, error) {
	i := &Issuer{address: address, now: time.Now}
	i.mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	i.mux.HandleFunc("GET /keys", i.showKeys)
	i.mux.HandleFunc("GET /token", i.issue)
	return i, i.Rotate()
}

// ServeHTTP implements [http.Handler].
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) { i.mux.ServeHTTP(w, r) }

// Rotate makes a key that signs from now on; those before stay published.
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

// Withdraw publishes the newest key alone.
func (i *Issuer) Withdraw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = i.keys[len(i.keys)-1:]
}

// Key is the one that signs, with the name by which it is published.
func (i *Issuer) Key() (id string, private *ecdsa.PrivateKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := i.keys[len(i.keys)-1]
	return k.id, k.private
}

// Token issues a token for an audience with a pipeline's claims; those that it sets itself
// can be given too.
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

// Claims are what a job of a repository's branch says of itself, as GitHub Actions has it.
func Claims(repository, branch, workflow string) map[string]any {
	ref := "refs/heads/" + branch
	owner, _, _ := strings.Cut(repository, "/")
	return map[string]any{
		"sub": "repo:" + repository + ":ref:" + ref, "repository": repository, "repository_owner": owner, "ref": ref, "ref_type": "branch",
		"workflow": workflow, "actor": "ada", "event_name": "push", "run_id": "1", "run_attempt": "1",
	}
}

// RequestToken is what a job with these claims asks for its tokens with.
func RequestToken(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(text), err
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
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
	answer(w, set)
}

// issue answers a job that asks for a token.
func (i *Issuer) issue(w http.ResponseWriter, r *http.Request) {
	var claims map[string]any
	asked := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	text, err := base64.RawURLEncoding.DecodeString(asked)
	if err != nil || json.Unmarshal(text, &claims) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token, err := i.Token(r.URL.Query().Get("audience"), claims)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	answer(w, map[string]any{"value": token})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who has hung up needs no answer
}
