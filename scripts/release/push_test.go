package main

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluicegate/sluice/tests/check"
)

// TestPush pushes to registries with and without the referrers API.
func TestPush(t *testing.T) {
	t.Parallel()
	for name, referrers := range map[string]bool{"with referrers": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
			defer server.Close()
			checkPush(t, strings.TrimPrefix(server.URL, "http://")+"/sluice/keys")
		})
	}
}

func checkPush(t *testing.T, repository string) {
	t.Helper()
	src := source{version: "v1.2.3", at: time.Unix(0, 0).UTC()}
	var all []built
	for _, architecture := range []string{"amd64", "arm64"} {
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		img, err := assemble("keys", platform, []byte("program for "+architecture), []byte("certificates"), src)
		check.OK(t, err)
		all = append(all, built{platform: platform, image: img, materials: []byte(`{"for":"` + architecture + `"}`)})
	}
	check.OK(t, push(t.Context(), repository, src.tag(), all, src))
	ref, err := name.ParseReference(repository + ":v1.2.3")
	check.OK(t, err)
	index, err := remote.Index(ref, remote.WithContext(t.Context()))
	check.OK(t, err)
	manifest, err := index.IndexManifest()
	check.OK(t, err)
	if got := manifest.Annotations["org.opencontainers.image.title"]; got != "sluice-keys" {
		t.Errorf("title: got %q, want sluice-keys", got)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		if got, want := attached(t, ref.Context().Digest(m.Digest.String())), `{"for":"`+m.Platform.Architecture+`"}`; got != want {
			t.Errorf("attachment of %s: got %s, want %s", m.Platform, got, want)
		}
	}
	check.Equal(t, "platforms", []string{"linux/amd64", "linux/arm64"}, platforms)
}

// attached returns the only SPDX document that refers to an image.
func attached(t *testing.T, img name.Digest) string {
	t.Helper()
	index, err := remote.Referrers(img, remote.WithContext(t.Context()), remote.WithFilter("artifactType", spdxType))
	check.OK(t, err)
	manifest, err := index.IndexManifest()
	check.OK(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("artifacts of %s: got %d, want 1", img, len(manifest.Manifests))
	}
	artifact, err := remote.Image(img.Context().Digest(manifest.Manifests[0].Digest.String()), remote.WithContext(t.Context()))
	check.OK(t, err)
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: got %d, error %v, want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	check.OK(t, err)
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(content)
	check.OK(t, err)
	return string(text)
}
