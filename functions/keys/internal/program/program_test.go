package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

type site struct {
	testing.TB
	server *httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	reads  atomic.Int64
	now    time.Time
	keys   *Keys
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{TB: t, now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reads.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.server.Close)
	s.keys = New(List{{"github", s.server.URL}}, slog.New(slog.DiscardHandler), func() time.Time { return s.now })
	return s
}

func (s *site) answers(h http.HandlerFunc) { s.answer.Store(&h) }

func (s *site) publishes(keys map[string]any) {
	s.Helper()
	type one struct {
		Identifier string `json:"key_identifier"`
		Key        string `json:"key"`
		Current    bool   `json:"is_current"`
	}
	list := []one{}
	for id, key := range keys {
		text, ok := key.(string)
		if !ok {
			der, err := x509.MarshalPKIXPublicKey(key)
			check.OK(s, err)
			text = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		}
		list = append(list, one{id, text, false})
	}
	body, err := json.Marshal(map[string]any{"public_keys": list})
	check.OK(s, err)
	s.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
}

func (s *site) finds(id string, want problem.Code) Key {
	s.Helper()
	k, err := s.keys.Find(s.Context(), id)
	if want == "" && (err != nil || k.Program != "github") || want != "" && !problem.Is(err, want) {
		s.Errorf("%s: got %v, %v, want %q", id, k.Program, err, want)
	}
	return k
}

func newKey(t *testing.T, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	check.OK(t, err)
	return k
}

func TestList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, " , ": 0,
		"github=https://api.github.com/meta/public_keys/secret_scanning": 1,
		"a=https://a.example/k, b=http://127.0.0.1:80/k":                 2,
		"a=http://localhost:1/":                                          -1, "a=http://[::1]:1/": 1,
		"a=http://a.example/k": -1, "a=http://10.0.0.1/": -1, "a=https://u:p@a.example/": -1, "a=ftp://a.example/": -1, "a=": -1, "a": -1,
		"A b=https://a.example/": -1, "=https://a.example/": -1, "a=https://": -1, "a=/keys": -1, "a=http://localhost.evil.example/": -1,
	} {
		var l List
		err := l.UnmarshalText([]byte(text))
		if got := len(l); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: got %v, %v", text, l, err)
		}
	}
}

func TestKeysAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, second := newKey(t, elliptic.P256()), newKey(t, elliptic.P256())
	s.publishes(map[string]any{"first": &first.PublicKey})
	read := func(want int64) {
		t.Helper()
		if got := s.reads.Load(); got != want {
			t.Errorf("reads of the list: got %d, want %d", got, want)
		}
	}
	s.finds("first", "")
	s.finds("first", "")
	read(1)
	s.publishes(map[string]any{"second": &second.PublicKey})
	for range 100 {
		s.finds("second", problem.Unauthenticated) // no read before minRefresh
	}
	read(1)
	s.now = s.now.Add(minRefresh)
	s.finds("second", "")
	s.finds("first", problem.Unauthenticated) // removed
	read(2)
	s.now = s.now.Add(lifetime - 1)
	s.finds("second", "")
	read(2)
	s.publishes(map[string]any{"first": &first.PublicKey})
	s.now = s.now.Add(1)
	s.finds("second", problem.Unauthenticated) // removed at most an hour ago
	read(3)
}

func TestKeysUnknown(t *testing.T) {
	t.Parallel()
	key := newKey(t, elliptic.P256())
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("got a followed redirect") }))
	t.Cleanup(inside.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"an error":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL, http.StatusFound) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no keys":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"public_keys":[]}`)) },
		"more than is read": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(" ", outbound.MaxAnswer+1) + "{}"))
		},
		"a connection closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.answers(answer)
			s.finds("first", problem.Unavailable)
			s.finds("first", problem.Unavailable)
			if n := s.reads.Load(); n != 1 {
				t.Errorf("reads: got %d", n)
			}
			s.now = s.now.Add(minRefresh)
			s.publishes(map[string]any{"first": &key.PublicKey})
			s.finds("first", "")
			s.answers(answer)
			s.now = s.now.Add(minRefresh)
			s.finds("second", problem.Unavailable)
			s.finds("first", "")
			s.now = s.now.Add(lifetime)
			s.finds("first", problem.Unavailable)
		})
	}
	if _, err := New(nil, slog.New(slog.DiscardHandler), time.Now).Find(t.Context(), "first"); !problem.Is(err, problem.Unauthenticated) {
		t.Errorf("without programs: got %v", err)
	}
}

func TestOtherKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	good, large := newKey(t, elliptic.P256()), newKey(t, elliptic.P384())
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	check.OK(t, err)
	s.publishes(map[string]any{"good": &good.PublicKey, "large": &large.PublicKey, "rsa": &other.PublicKey, "text": "no PEM", "": &good.PublicKey})
	s.finds("good", "")
	for _, id := range []string{"large", "rsa", "text", ""} {
		s.finds(id, problem.Unauthenticated)
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	key := newKey(t, elliptic.P256())
	s.publishes(map[string]any{"first": &key.PublicKey})
	body := []byte(`[{"token":"x"}]`)
	sum := sha256.Sum256(body)
	signed, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	check.OK(t, err)
	head := http.Header{IdentifierHeader: {"first"}, SignatureHeader: {base64.StdEncoding.EncodeToString(signed)}}
	c, ok := ClaimOf(head)
	if k := s.finds("first", ""); !ok || !k.Signs(c, body) || k.Signs(c, []byte(`[{"token":"y"}]`)) || k.Signs(Claim{signature: []byte("x")}, body) {
		t.Error("got a valid signature for another body or key")
	}
	for name, change := range map[string]func(http.Header){
		"no identifier":        func(h http.Header) { h.Del(IdentifierHeader) },
		"no signature":         func(h http.Header) { h.Del(SignatureHeader) },
		"empty ones":           func(h http.Header) { h.Set(IdentifierHeader, ""); h.Set(SignatureHeader, "") },
		"two identifiers":      func(h http.Header) { h.Add(IdentifierHeader, "first") },
		"two signatures":       func(h http.Header) { h.Add(SignatureHeader, h.Get(SignatureHeader)) },
		"no base64":            func(h http.Header) { h.Set(SignatureHeader, "%%%") },
		"a long signature":     func(h http.Header) { h.Set(SignatureHeader, strings.Repeat("AAAA", maxSignature)) },
		"a long identifier":    func(h http.Header) { h.Set(IdentifierHeader, strings.Repeat("a", maxIdentifier+1)) },
		"the identifier alone": func(h http.Header) { h.Set(SignatureHeader, "") },
	} {
		h := head.Clone()
		change(h)
		if _, ok := ClaimOf(h); ok {
			t.Errorf("%s: got a claim", name)
		}
	}
}
