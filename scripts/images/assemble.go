package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is "nonroot" in most distributions' images without one.
const user = "65532:65532"

// assemble makes a function's image: certificates below, the program above, since
// that changes more often.
func assemble(function string, program, certificates []byte) (v1.Image, error) {
	img := empty.Image
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/ssl/certs/ca-certificates.crt", 0o444, certificates},
		{function, 0o555, program},
	} {
		layer, err := layerOf(file.name, file.mode, file.content)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.User = user
	file.Config.Entrypoint = []string{"/" + function}
	file.Config.Env = []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "FUNCTION_TARGET=" + function}
	return mutate.ConfigFile(img, file)
}

// layerOf is a layer with one file, which has no time of its own.
func layerOf(name string, mode int64, content []byte) (v1.Layer, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return nil, fmt.Errorf("layer of %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("layer of %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("layer of %s: %w", name, err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
}
