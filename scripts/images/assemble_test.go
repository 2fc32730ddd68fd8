package main

import (
	"archive/tar"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func TestAssemble(t *testing.T) {
	t.Parallel()
	img, err := assemble("keys", []byte("program"), []byte("certificates"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := assemble("keys", []byte("program"), []byte("certificates"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Digest(); err != nil || first != second {
		t.Errorf("the same sources made %s and %s, %v", first, second, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != user || !cmp.Equal(config.Config.Entrypoint, []string{"/keys"}) || config.OS != "linux" {
		t.Errorf("config %+v", config.Config)
	}
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	got := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
	}
	if diff := cmp.Diff(map[string]string{"keys": "program", "etc/ssl/certs/ca-certificates.crt": "certificates"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
