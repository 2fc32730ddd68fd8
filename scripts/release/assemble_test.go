package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sluicegate/sluice/tests/check"
)

func TestAssemble(t *testing.T) {
	t.Parallel()
	src := source{revision: "dc24a87", version: "v1.2.3", at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	make := func() v1.Image {
		img, err := assemble("keys", v1.Platform{OS: "linux", Architecture: "arm64"}, []byte("program"), []byte("certificates"), src)
		check.OK(t, err)
		return img
	}
	img := make()
	first, err := img.Digest()
	check.OK(t, err)
	if second, err := make().Digest(); err != nil || first != second {
		t.Errorf("second image from the same sources: got %s, %v, want %s", second, err, first)
	}
	config, err := img.ConfigFile()
	check.OK(t, err)
	if config.Config.User != user || !cmp.Equal(config.Config.Entrypoint, []string{"/keys"}) || config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("config: got %+v", config)
	}
	manifest, err := img.Manifest()
	check.OK(t, err)
	want := map[string]string{
		"org.opencontainers.image.title":       "sluice-keys",
		"org.opencontainers.image.description": "Sluice's function keys",
		"org.opencontainers.image.source":      "https://github.com/sluicegate/sluice",
		"org.opencontainers.image.revision":    "dc24a87",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.created":     "2026-01-02T03:04:05Z",
	}
	check.Equal(t, "labels", want, config.Config.Labels)
	check.Equal(t, "annotations", want, manifest.Annotations)
	check.Equal(t, "files", map[string]string{"keys": "program", certificateFile: "certificates"}, files(t, img))
}

func files(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	got := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		check.OK(t, err)
		text, err := io.ReadAll(r)
		check.OK(t, err)
		got[h.Name] = string(text)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	text := certificates()
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		t.Fatal("got no valid certificates")
	}
	if n := bytes.Count(text, []byte("BEGIN CERTIFICATE")); n < 80 {
		t.Errorf("certificates: got %d, want at least 80", n)
	}
	if !bytes.Equal(text, certificates()) {
		t.Error("got different certificates from two calls")
	}
}
