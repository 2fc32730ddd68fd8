package registry

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluicegate/sluice/tests/check"
)

func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func resolver(t *testing.T, access Access) *Resolver {
	t.Helper()
	r, err := New(access, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	t.Cleanup(r.Close)
	return r
}

// push stores an image with a unique annotation under a tag and returns its digest.
func push(t *testing.T, tag, content string) string {
	t.Helper()
	ref, err := name.NewTag(tag, name.Insecure)
	check.OK(t, err)
	image := mutate.Annotations(empty.Image, map[string]string{"content": content}).(v1.Image) //nolint:forcetypeassert // Annotations returns the type of its argument
	check.OK(t, remote.Write(ref, image))
	digest, err := image.Digest()
	check.OK(t, err)
	return digest.String()
}

func TestResolveFollowsTheTag(t *testing.T) {
	t.Parallel()
	tag := serve(t) + "/shop/hello:v1"
	r := resolver(t, Access{AllowPrivate: true})
	for _, content := range []string{"first", "second"} {
		want := push(t, tag, content)
		if got, note := r.Resolve(t.Context(), tag); got != want || note != "" {
			t.Errorf("%s: got %q, %q, want %q", content, got, note, want)
		}
	}
}

func TestUnresolvableImageIsRejected(t *testing.T) {
	t.Parallel()
	host := serve(t)
	push(t, host+"/shop/hello:v1", "first")
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	tests := []struct {
		name    string
		private bool
		image   string
		note    string
	}{
		{"a private registry", false, host + "/shop/hello:v1", "because the registry's address is not public"},
		{"no such tag", true, host + "/shop/hello:v2", "because the registry returned status 404"},
		{"nobody listens", true, strings.TrimPrefix(refused.URL, "http://") + "/hello:v1", "because the registry did not respond"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := resolver(t, Access{AllowPrivate: tt.private})
			digest, note := r.Resolve(t.Context(), tt.image)
			if digest != "" || !strings.Contains(note, tt.note) {
				t.Errorf("got %q, %q, want a note with %q", digest, note, tt.note)
			}
		})
	}
}

func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	file := filepath.Join(t.TempDir(), "ca.crt")
	for _, trusted := range []bool{false, true} {
		var lines bytes.Buffer
		r, err := New(Access{AllowPrivate: true, CAFile: file}, slog.New(slog.NewTextHandler(&lines, nil)))
		check.OK(t, err)
		t.Cleanup(r.Close)
		want, logged := "because the registry's certificate is not trusted.", `msg="resolve tag failed" registry=`+host+` reason="x509: `
		if trusted {
			want, logged = "because the registry returned status 404.", `registry=`+host+` reason="the registry returned status 404"`
		}
		if digest, note := r.Resolve(t.Context(), host+"/hello:v1"); digest != "" || !strings.HasSuffix(note, want) || !strings.Contains(lines.String(), logged) {
			t.Errorf("got %q, %q, logged %s", digest, note, lines.String())
		}
		content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		check.OK(t, os.WriteFile(file, content, 0o600))
	}
	check.OK(t, os.WriteFile(file, []byte("hello"), 0o600))
	if _, err := New(Access{CAFile: file}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "REGISTRY_CA_FILE") {
		t.Errorf("a file without a certificate: %v", err)
	}
}

func TestDigestInTheReference(t *testing.T) {
	t.Parallel()
	want := "sha256:" + strings.Repeat("ab", 32)
	if got, note := resolver(t, Access{}).Resolve(t.Context(), "registry.invalid/hello@"+want); got != want || note != "" {
		t.Errorf("got %q, %q, want %q", got, note, want)
	}
}

func TestRegistryThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := resolver(t, Access{AllowPrivate: true})
		r.client = roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		start := time.Now()
		digest, note := r.Resolve(context.Background(), "registry.invalid/hello:v1")
		if took := time.Since(start); digest != "" || !strings.Contains(note, "in time") || took != patience {
			t.Errorf("got %q, %q after %v", digest, note, took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPublic(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address string
		want    bool
	}{
		{"93.184.216.34", true},
		{"2606:2800:220:1::1", true},
		{"127.0.0.1", false},
		{"10.1.2.3", false},
		{"172.16.0.1", false},
		{"192.168.1.1", false},
		{"169.254.169.254", false},
		{"100.64.0.1", false},
		{"0.0.0.0", false},
		{"224.0.0.1", false},
		{"255.255.255.255", false},
		{"::1", false},
		{"::", false},
		{"fe80::1", false},
		{"fd00::1", false},
		{"::ffff:127.0.0.1", false},
		{"64:ff9b::7f00:1", false},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			t.Parallel()
			if got := public(netip.MustParseAddr(tt.address).Unmap()); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

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

// FuzzAnswers tests that each response yields a digest or a note, and that the note contains no
// part of the response.
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
		r := &Resolver{log: slog.New(slog.DiscardHandler), client: answering{status, h, append([]byte(marker), body...)}, keychain: authn.NewMultiKeychain(), closing: func() {}}
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
