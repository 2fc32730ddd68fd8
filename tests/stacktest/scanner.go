package stacktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// Scanner is a secret scanning program that publishes keys and signs reports.
type Scanner struct {
	Name string

	site *httptest.Server
	mu   sync.Mutex // guards keys and down
	keys map[string]*ecdsa.PrivateKey
	down bool
}

// NewScanner starts a scanner, which must exist before the stack that trusts it.
func NewScanner(name string) *Scanner {
	s := &Scanner{Name: name, keys: map[string]*ecdsa.PrivateKey{}}
	s.site = httptest.NewServer(s)
	return s
}

// Setting returns the scanner's entry of LEAK_PROGRAMS.
func (s *Scanner) Setting() string { return s.Name + "=" + s.site.URL }

// Publish adds a key.
func (s *Scanner) Publish(identifier string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[identifier] = key
	return err
}

// Down makes the list fail or work again.
func (s *Scanner) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// ServeHTTP serves the keys.
func (s *Scanner) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type one struct {
		Identifier string `json:"key_identifier"`
		Key        string `json:"key"`
		Current    bool   `json:"is_current"`
	}
	list := []one{}
	for id, key := range s.keys {
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil || s.down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		list = append(list, one{id, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), true})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"public_keys": list})
}

// Sign returns the headers of a signed report. It needs a local stack, because no other stack
// trusts the scanner.
func (s *Scanner) Sign(t testing.TB, identifier, body string) http.Header {
	t.Helper()
	Insides(t, "LEAK_PROGRAMS must contain the test's scanner")
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(body))
	signature, err := ecdsa.SignASN1(rand.Reader, s.keys[identifier], sum[:])
	check.OK(t, err)
	return http.Header{
		"Github-Public-Key-Identifier": {identifier}, "Github-Public-Key-Signature": {base64.StdEncoding.EncodeToString(signature)},
	}
}
