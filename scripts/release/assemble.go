package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the ID of "nonroot" in distroless images.
const user = "65532:65532"

const certificateFile = "etc/ssl/certs/ca-certificates.crt"

// assemble returns the image of a function. The certificates are the lower layer, because
// they change less often than the program.
func assemble(function string, platform v1.Platform, program, certificates []byte, src source) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{certificateFile, 0o444, certificates},
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
	file.OS, file.Architecture = platform.OS, platform.Architecture
	file.Created = v1.Time{Time: src.at}
	for i := range file.History {
		file.History[i].Created = v1.Time{Time: src.at}
	}
	file.Config.User = user
	file.Config.Entrypoint = []string{"/" + function}
	file.Config.Env = []string{"PATH=/", "SSL_CERT_FILE=/" + certificateFile, "FUNCTION_TARGET=" + function}
	file.Config.ExposedPorts = map[string]struct{}{"8080/tcp": {}}
	file.Config.Labels = src.labels(function)
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(img, src.labels(function)).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotate the image of %s", function)
	}
	return annotated, nil
}

// certificates returns the CA certificates without conditions, as a PEM file.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}

// layerOf returns a layer with one file, whose modification time is zero.
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
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}
