package registry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluicegate/sluice/tests/check"
)

func serve(t *testing.T, dir string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	address := server.Listener.Addr().String()
	r, err := New(dir, address, "registry.example", "platform/echo:latest")
	check.OK(t, err)
	server.Config.Handler = r
	server.Start()
	t.Cleanup(server.Close)
	return address
}

func tag(t *testing.T, s string) name.Tag {
	t.Helper()
	ref, err := name.NewTag(s, name.Insecure)
	check.OK(t, err)
	return ref
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := serve(t, dir)
	img, err := random.Image(1000, 2)
	check.OK(t, err)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	check.OK(t, remote.WriteIndex(tag(t, address+"/shop/hello:v1"), index))
	want, err := img.Digest()
	check.OK(t, err)
	got, err := remote.Image(tag(t, serve(t, dir)+"/shop/hello:v1"))
	check.OK(t, err)
	if digest, err := got.Digest(); err != nil || digest != want {
		t.Errorf("got digest %v, %v, want %v", digest, err, want)
	}
}

// TestMirror checks that only images of the mirrored registry are created.
func TestMirror(t *testing.T) {
	t.Parallel()
	address := serve(t, t.TempDir())
	base, err := random.Image(1000, 1)
	check.OK(t, err)
	check.OK(t, remote.Write(tag(t, address+"/platform/echo:latest"), base))
	digests := map[string]bool{}
	for path, want := range map[string]int{
		"hello/manifests/v1?ns=registry.example":     http.StatusOK,
		"hello/manifests/v2?ns=registry.example":     http.StatusOK,
		"shop/x/manifests/v1?ns=registry.example":    http.StatusOK,
		"hello/manifests/broken?ns=registry.example": http.StatusNotFound,
		"missing/x/manifests/v1?ns=registry.example": http.StatusNotFound,
		"other/manifests/v1?ns=docker.io":            http.StatusNotFound,
		"other/manifests/v1":                         http.StatusNotFound,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+address+"/v2/"+path, nil)
		check.OK(t, err)
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got status %d, want %d", path, resp.StatusCode, want)
		}
		if digest := resp.Header.Get("Docker-Content-Digest"); want == http.StatusOK && !strings.HasPrefix(digest, "sha256:") {
			t.Errorf("%s: got digest %q, want sha256:…", path, digest)
		} else if want == http.StatusOK {
			digests[digest] = true
		}
	}
	if len(digests) != 3 {
		t.Errorf("got digests %v, want three", digests)
	}
}
