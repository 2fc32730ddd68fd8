package registry

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serve runs a registry and gives its host.
func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// push puts an image with an annotation of its own under a tag and gives its digest.
func push(t *testing.T, tag, content string) string {
	t.Helper()
	ref, err := name.NewTag(tag, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	image := mutate.Annotations(empty.Image, map[string]string{"content": content}).(v1.Image) //nolint:forcetypeassert // what goes in comes out
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestResolveFollowsTheTag(t *testing.T) {
	t.Parallel()
	tag := serve(t) + "/shop/hello:v1"
	r := New(true)
	t.Cleanup(r.Close)
	for _, content := range []string{"first", "second"} {
		want := push(t, tag, content)
		if got, note := r.Resolve(t.Context(), tag); got != want || note != "" {
			t.Errorf("%s: %q, %q, want %q", content, got, note, want)
		}
	}
}

func TestWhatCannotBeResolved(t *testing.T) {
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
		{"a private registry", false, host + "/shop/hello:v1", "could not be asked: the registry's address is not a public one"},
		{"no such tag", true, host + "/shop/hello:v2", "because the registry answered 404"},
		{"nobody listens", true, strings.TrimPrefix(refused.URL, "http://") + "/hello:v1", "because the registry did not answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := New(tt.private)
			t.Cleanup(r.Close)
			digest, note := r.Resolve(t.Context(), tt.image)
			if digest != "" || !strings.Contains(note, tt.note) {
				t.Errorf("%q, %q, want a note with %q", digest, note, tt.note)
			}
		})
	}
}

func TestDigestInTheReference(t *testing.T) {
	t.Parallel()
	want := "sha256:" + strings.Repeat("ab", 32)
	if got, note := New(false).Resolve(t.Context(), "registry.invalid/hello@"+want); got != want || note != "" {
		t.Errorf("%q, %q, want %q", got, note, want)
	}
}

// A registry that hangs holds a deploy up for no longer than the patience.
func TestRegistryThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(true)
		r.client = roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		start := time.Now()
		digest, note := r.Resolve(context.Background(), "registry.invalid/hello:v1")
		if took := time.Since(start); digest != "" || !strings.Contains(note, "in time") || took != patience {
			t.Errorf("%q, %q after %v", digest, note, took)
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
				t.Errorf("public is %v", got)
			}
		})
	}
}
