package registry

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// answering is a registry that gives everybody the same answer.
type answering struct {
	status int
	header http.Header
	body   []byte
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// FuzzAnswers: whatever a registry answers, there is a digest or a note, and the note
// holds no word of the answer.
func FuzzAnswers(f *testing.F) {
	const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	f.Add(200, digest, "application/vnd.oci.image.manifest.v1+json", "10", "", []byte("{}"))
	f.Add(200, "sha256:x", "text/html", "-1", "", []byte("<html>"))
	f.Add(401, "", "application/json", "", `Bearer realm="http://127.0.0.1/",service="x"`, []byte(`{"token":"secret"}`))
	f.Add(401, "", "", "", `Basic`, []byte(`{"errors":[{"code":"DENIED","message":"marker"}]}`))
	f.Add(302, "", "", "", "", []byte(""))
	f.Add(429, "", "application/json", "", "", []byte(`{"errors":null}`))
	f.Fuzz(func(t *testing.T, status int, digest, kind, length, challenge string, body []byte) {
		status = 200 + (status%400+400)%400
		const marker = "marker-in-the-answer"
		h := http.Header{}
		for name, value := range map[string]string{"Docker-Content-Digest": digest, "Content-Type": kind, "Content-Length": length, "Www-Authenticate": challenge} {
			if value != "" {
				h.Set(name, value)
			}
		}
		r := &Resolver{client: answering{status, h, append([]byte(marker), body...)}, keychain: authn.NewMultiKeychain(), closing: func() {}}
		got, note := r.Resolve(t.Context(), "registry.example/shop/hello:v1")
		if (got == "") == (note == "") || strings.Contains(note, marker) {
			t.Fatalf("digest %q, note %q", got, note)
		}
		if got != "" {
			if _, err := v1.NewHash(got); err != nil {
				t.Errorf("digest %q: %v", got, err)
			}
		}
	})
}
