package outbound

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"https://ci.example.com/api/keys?v=1": true, "http://127.0.0.1:8080/x": true, "http://[::1]:80": true,
		"http://ci.example.com": false, "http://localhost": false, "http://127.0.0.1.example.com": false, "ftp://x": false, "": false, "https://": false,
		"https://u@ci.example.com": false, "%": false,
	} {
		if err := CheckAddress(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	asked := 0
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		good   bool
	}{
		"JSON":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":1}`)) }, true},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, false},
		"a page":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) }, false},
		"too much": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), MaxAnswer+1)) }, false},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, false},
	} {
		s := httptest.NewServer(c.answer)
		resp, err := Client(http.DefaultTransport).Get(s.URL)
		if (err == nil) != c.good || err != nil && !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != `{"a":1}` {
				t.Errorf("%s: %s, %v", name, body, err)
			}
			_ = resp.Body.Close()
		}
		s.Close()
	}
	if asked != 1 {
		t.Errorf("requests to the redirecting server: got %d, want 1", asked)
	}
}

type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestUnresponsiveServerTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		resp, err := Client(silent{}).Get("https://ci.example.com")
		if err == nil {
			_ = resp.Body.Close()
		}
		if took := time.Since(began); err == nil || took != Patience {
			t.Errorf("%v after %s", err, took)
		}
	})
}
