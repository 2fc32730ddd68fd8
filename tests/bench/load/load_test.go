package load_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/check"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("X-API-Key")
		if seen[key]++; key == "b" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("no"))
		}
	}))
	t.Cleanup(server.Close)
	l := load.Load{
		Address: strings.TrimPrefix(server.URL, "http://"), Connections: 3, Head: "GET / HTTP/1.1\r\nHost: x\r\n",
		Keys: []string{"a", "b", "c"}, Once: true, For: time.Minute, Now: time.Now,
	}
	r, err := l.Run(t.Context())
	check.OK(t, err)
	check.Equal(t, "keys sent", map[string]int{"a": 1, "b": 1, "c": 1}, seen)
	if diff := cmp.Diff(map[int]int{200: 2, 401: 1}, r.Statuses); diff != "" || r.Requests != 3 || r.P50 > r.P99 || r.Rate() <= 0 {
		t.Errorf("got %+v, statuses (-want +got):\n%s", r, diff)
	}
	server.Close()
	if _, err := l.Run(t.Context()); err == nil {
		t.Error("load of a closed server: got no error, want one")
	}
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	l := load.Load{
		Address: strings.TrimPrefix(server.URL, "https://"), TLS: &tls.Config{RootCAs: pool, ServerName: "example.com"},
		Connections: 2, Head: "GET / HTTP/1.1\r\nHost: x\r\n", Keys: []string{"a", "b", "c", "d", "e", "f"}, Once: true, For: time.Minute, Now: time.Now,
	}
	if r, err := l.Run(t.Context()); err != nil || r.Requests != len(l.Keys) {
		t.Errorf("got %+v, %v, want %d requests", r, err, len(l.Keys))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	var first, second []string
	for k := range load.Keys(100) {
		first = append(first, string(k.Full))
	}
	for k := range load.Keys(200) {
		second = append(second, string(k.Full))
	}
	if diff := cmp.Diff(first, second[:100]); diff != "" {
		t.Error(diff)
	}
}
