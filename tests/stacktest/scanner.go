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

// Scanner is a secret-scanning program: it publishes keys, and signs what it reports with
// them.
type Scanner struct {
	Name string

	site *httptest.Server
	mu   sync.Mutex // guards what follows
	keys map[string]*ecdsa.PrivateKey
	down bool
}

// NewScanner starts one that has published no key; it goes on until the process ends. It must
// be there before the stack that is to trust it.
func NewScanner(name string) *Scanner {
	s := &Scanner{Name: name, keys: map[string]*ecdsa.PrivateKey{}}
	s.site = httptest.NewServer(s)
	return s
}

// Setting is what LEAK_PROGRAMS says of it.
func (s *Scanner) Setting() string { return s.Name + "=" + s.site.URL }

// Publish adds a key to the list.
func (s *Scanner) Publish(identifier string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[identifier] = key
	return err
}

// Down has the list answer with errors, or not any more.
func (s *Scanner) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// ServeHTTP sends the list.
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

// Sign returns the headers of a report with this body, signed with a published key. It skips
// the test where there is no local stack: no other stack trusts the scanner.
func (s *Scanner) Sign(t testing.TB, identifier, body string) http.Header {
	t.Helper()
	Insides(t, "its LEAK_PROGRAMS names the test's secret scanner")
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(body))
	signature, err := ecdsa.SignASN1(rand.Reader, s.keys[identifier], sum[:])
	check.OK(t, err)
	return http.Header{
		"Github-Public-Key-Identifier": {identifier}, "Github-Public-Key-Signature": {base64.StdEncoding.EncodeToString(signature)},
	}
}
