package apikey

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"unicode/utf8"
)

func TestHeaderName(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"Café 1", "Caf%C3%A9 1"},
		{"plain ASCII ~!", "plain ASCII ~!"},
		{"100%", "100%25"},
		{"%41", "%2541"},
		{"日本", "%E6%97%A5%E6%9C%AC"},
		{"a\r\nX-Evil: 1", "a%0D%0AX-Evil: 1"},
		{"\x00\x7f", "%00%7F"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			if got := HeaderName(tt.in); got != tt.want {
				t.Errorf("HeaderName(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// Whatever a name holds, its header is one line of visible ASCII, and a name that
// the rules accept comes back by decoding.
func FuzzHeaderName(f *testing.F) {
	for _, s := range []string{"Café", "a\nb", "\xff", "100%", "%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		h := HeaderName(name)
		for _, c := range []byte(h) {
			if c < ' ' || c > '~' {
				t.Fatalf("HeaderName(%q) holds byte %#x", name, c)
			}
		}
		if CheckName(name) != nil || !utf8.ValidString(name) {
			return
		}
		w := httptest.NewRecorder()
		w.Header().Set("X-Service-Key-Name", h)
		w.WriteHeader(http.StatusOK)
		res := w.Result()
		defer func() { _ = res.Body.Close() }()
		if got := res.Header.Get("X-Service-Key-Name"); got != h {
			t.Fatalf("sent %q, received %q", h, got)
		}
		if back, err := url.PathUnescape(h); err != nil || back != name {
			t.Fatalf("%q came back as %q, %v", name, back, err)
		}
	})
}
