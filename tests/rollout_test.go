package tests

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestBrokenImage(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	s.Settled("hello", 1, "live")
	deploy(t, s, "broken")
	d := s.Settled("hello", 2, "failed")
	if d.Message == "" || !d.Current {
		t.Errorf("got %+v, want a message and the revision current", d)
	}
	if e := s.Echo(s.Call("hello").Gets(http.StatusOK)); e.Image != image("v1") {
		t.Errorf("got image %s, want %s", e.Image, image("v1"))
	}
	deploy(t, s, "v3")
	s.Runs("hello", image("v3"))
	if back := rollback(t, s, 0); back.SourceRevision != 1 {
		t.Errorf("rollback: got revision %d, want 1, skipping the failed revision", back.SourceRevision)
	}
	s.Runs("hello", image("v1"))
	if again := rollback(t, s, 2); again.Image != image("broken") {
		t.Errorf("rollback to the failed revision by number: got %+v, want image %s", again, image("broken"))
	}
	s.Settled("hello", 5, "failed")
}

// TestDigest rolls back after the image's tag has moved to another digest.
func TestDigest(t *testing.T) {
	stacktest.Insides(t, "its registry listens on the loopback interface")
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	ref, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/shop/hello:stable")
	check.OK(t, err)
	publish := func() string {
		img, err := random.Image(64, 1)
		check.OK(t, err)
		check.OK(t, remote.Write(ref, img, remote.WithContext(t.Context())))
		digest, err := img.Digest()
		check.OK(t, err)
		return digest.String()
	}
	s := stacktest.New(t, world)
	s.App("hello")
	release := func() string {
		d, err := s.Client.Deploy(t.Context(), s.Project, s.Env, "hello", ref.String())
		check.OK(t, err)
		return string(d.Digest)
	}
	first := publish()
	if got := release(); got != first {
		t.Errorf("digest: got %s, want %s", got, first)
	}
	s.Settled("hello", 2, "live") // a rollback skips revisions that were never live
	second := publish()
	if got := release(); got != second || first == second {
		t.Errorf("digest: got %s, want %s", got, second)
	}
	s.Runs("hello", ref.String()+"@"+second)
	if d := rollback(t, s, 0); string(d.Digest) != first {
		t.Errorf("rollback: got %s, want %s", d.Digest, first)
	}
	s.Runs("hello", ref.String()+"@"+first)
}
