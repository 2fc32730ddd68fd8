package httpapi

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestFail(t *testing.T) {
	t.Parallel()
	const (
		plain = `{"code":"not_found","message":"The resource does not exist."}` + "\n"
		told  = `{"code":"not_found","message":"The resource does not exist.","type":"about:blank","title":"Not Found","status":404,"detail":"The resource does not exist."}` + "\n"
	)
	m, _ := testMux()
	m.Handle("GET /x", func(http.ResponseWriter, *http.Request) error {
		return problem.New(problem.NotFound, "The resource does not exist.")
	})
	for accept, want := range map[string]string{
		"":                         plain,
		"*/*":                      plain,
		"application/json":         plain,
		"application/problem+json": told,
		"text/html, application/problem+json;q=0.5": told,
		"Application/Problem+JSON":                  told,
		"application/problem+json;q=0":              plain,
		"application/problem+json;q=x":              plain,
		"application/problem+json;;, ;":             plain,
	} {
		w := ask(m, "GET", "/x", "Accept", accept)
		media := "application/json"
		if want == told {
			media = "application/problem+json"
		}
		if w.Code != http.StatusNotFound || w.Body.String() != want || w.Header().Get("Content-Type") != media {
			t.Errorf("Accept %q: got %d %s %s", accept, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("same text ", 100)
	f, err := NewFile("text/plain", "no-cache", []byte(content))
	check.OK(t, err)
	m, _ := testMux()
	m.Handle("GET /x", f.Serve)
	plain, packed := `"`+f.Tag+`"`, `"`+f.Tag+`-gzip"`
	tests := []struct {
		name   string
		method string
		header []string
		status int
		tag    string
	}{
		{"plain", "GET", nil, 200, plain},
		{"its head", "HEAD", nil, 200, plain},
		{"compressed", "GET", []string{"Accept-Encoding", "br, gzip"}, 200, packed},
		{"had before", "GET", []string{"If-None-Match", plain}, 304, plain},
		{"had before, compressed", "GET", []string{"If-None-Match", packed, "Accept-Encoding", "gzip"}, 304, packed},
		{"had before, by a weak tag among others", "GET", []string{"If-None-Match", `"a" , W/` + plain}, 304, plain},
		{"anything had before", "GET", []string{"If-None-Match", "*"}, 304, plain},
		{"had compressed", "GET", []string{"If-None-Match", packed}, 200, plain},
		{"had another", "GET", []string{"If-None-Match", `"` + f.Tag}, 200, plain},
		{"a part of it", "GET", []string{"Range", "bytes=5-"}, 200, plain},
		{"beyond it", "GET", []string{"Range", "bytes=99999-"}, 200, plain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(m, tt.method, "/x", tt.header...)
			head := w.Header()
			if w.Code != tt.status || head.Get("ETag") != tt.tag || head.Get("Cache-Control") != "no-cache" || head.Get("Vary") != "Accept-Encoding" {
				t.Errorf("got status %d, headers %v", w.Code, head)
			}
			if tt.status == http.StatusNotModified {
				if w.Body.Len() != 0 || head.Get("Content-Type") != "" {
					t.Errorf("304: got body %q, headers %v", w.Body, head)
				}
				return
			}
			var body io.Reader = w.Body
			if tt.tag == packed {
				unpacked, err := gzip.NewReader(body)
				check.OK(t, err)
				body = unpacked
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != content || head.Get("Content-Type") != "text/plain" {
				t.Errorf("body: got %q, error %v, headers %v", got, err, head)
			}
		})
	}
}
