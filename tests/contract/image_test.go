package contract

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sluicegate/sluice/tests/check"
)

// image is a pulled and unpacked image.
type image struct {
	v1.Image
	ref    name.Digest
	config v1.Config
	root   string
}

func pull(ctx context.Context, tag, root string) (*image, error) {
	ref, err := name.ParseReference(tag)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	return &image{Image: img, ref: ref.Context().Digest(digest.String()), config: file.Config, root: root}, unpack(content, root)
}

func unpack(content io.Reader, root string) error {
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, fs.FileMode(h.Mode)); err != nil {
			return err
		}
	}
}

func functions() []string { return slices.Sorted(maps.Keys(shipped)) }

func TestImage(t *testing.T) {
	t.Parallel()
	for _, function := range functions() {
		img := shipped[function]
		if !cmp.Equal(img.config.Entrypoint, []string{"/" + function}) || img.config.User != "65532:65532" {
			t.Errorf("%s: got entry point %v and user %s", function, img.config.Entrypoint, img.config.User)
		}
		if got := img.config.Labels["org.opencontainers.image.title"]; got != "sluice-"+function {
			t.Errorf("%s: title: got %q, want %q", function, got, "sluice-"+function)
		}
		content := mutate.Extract(img)
		var names []string
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			check.OK(t, err)
			names = append(names, h.Name)
			if h.Mode&0o222 != 0 || h.Uid != 0 {
				t.Errorf("%s: %s is writable: mode %o, user %d", function, h.Name, h.Mode, h.Uid)
			}
		}
		_ = content.Close()
		want := []string{"etc/ssl/certs/ca-certificates.crt", function}
		slices.Sort(want)
		slices.Sort(names)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", function, diff)
		}
	}
}

// materials is the checked part of a bill of materials.
type materials struct {
	SPDXVersion string `json:"spdxVersion"`
	Packages    []struct {
		Name     string `json:"name"`
		Version  string `json:"versionInfo"`
		Declared string `json:"licenseDeclared"`
	} `json:"packages"`
}

// TestMaterials checks the versions and licenses in every bill of materials.
func TestMaterials(t *testing.T) {
	t.Parallel()
	for _, function := range functions() {
		m := attached(t, shipped[function])
		if m.SPDXVersion != "SPDX-2.3" || len(m.Packages) < 20 {
			t.Errorf("%s: %s with %d packages", function, m.SPDXVersion, len(m.Packages))
		}
		versions := map[string]string{}
		for _, p := range m.Packages[1:] { // the first is the program
			versions[p.Name] = p.Version
			if p.Version == "" || p.Declared == "" || p.Declared == "NOASSERTION" {
				t.Errorf("%s: %s %s has licence %q", function, p.Name, p.Version, p.Declared)
			}
		}
		if got := "go" + versions["std"]; got != runtime.Version() {
			t.Errorf("%s: standard library %q, want %q", function, got, runtime.Version())
		}
		if versions["github.com/GoogleCloudPlatform/functions-framework-go"] == "" {
			t.Errorf("%s: the functions-framework is missing", function)
		}
	}
}

func attached(t *testing.T, img *image) materials {
	t.Helper()
	index, err := remote.Referrers(img.ref, remote.WithContext(t.Context()), remote.WithFilter("artifactType", "application/spdx+json"))
	check.OK(t, err)
	manifest, err := index.IndexManifest()
	check.OK(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%s: %d bills of materials", img.ref, len(manifest.Manifests))
	}
	artifact, err := remote.Image(img.ref.Context().Digest(manifest.Manifests[0].Digest.String()), remote.WithContext(t.Context()))
	check.OK(t, err)
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s: %d layers, %v", img.ref, len(layers), err)
	}
	text, err := layers[0].Uncompressed()
	check.OK(t, err)
	defer func() { _ = text.Close() }()
	var m materials
	check.OK(t, json.NewDecoder(text).Decode(&m))
	return m
}

// TestReproducible builds copies of the sources in different places and environments. The results
// must be equal, and equal to the pushed image.
func TestReproducible(t *testing.T) {
	t.Parallel()
	const function = "keys"
	var digests, bills []string
	for place, env := range map[string][]string{
		"a":             nil,
		"another/place": {"GOFLAGS=-tags=other", "GOAMD64=v3", "GOEXPERIMENT=nosynchashtriemap", "TZ=Asia/Tokyo", "SOURCE_DATE_EPOCH=0"},
	} {
		dir := filepath.Join(t.TempDir(), place)
		copySources(t, dir)
		out := filepath.Join(t.TempDir(), "out")
		check.OK(t, command(t.Context(), dir, env, programs.release, "images", "--only", function, out))
		img, err := tarball.ImageFromPath(filepath.Join(out, function+".tar"), nil)
		check.OK(t, err)
		digest, err := img.ConfigName() // identifies the content of all layers
		check.OK(t, err)
		bill, err := os.ReadFile(filepath.Join(out, function+".spdx.json"))
		check.OK(t, err)
		digests, bills = append(digests, digest.String()), append(bills, string(bill))
		if got, want := contents(t, img), contents(t, shipped[function]); !cmp.Equal(got, want) {
			t.Errorf("built in %s: got layers %v, want %v as pushed", place, got, want)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("digests of two builds differ: %v", digests)
	}
	if diff := cmp.Diff(bills[0], bills[1]); diff != "" {
		t.Errorf("bills of materials of two builds differ:\n%s", diff)
	}
}

func contents(t *testing.T, img v1.Image) []string {
	t.Helper()
	file, err := img.ConfigFile()
	check.OK(t, err)
	var all []string
	for _, h := range file.RootFS.DiffIDs {
		all = append(all, h.String())
	}
	return all
}

func copySources(t *testing.T, to string) {
	t.Helper()
	for _, part := range []string{"functions", "shared"} {
		check.OK(t, os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(checkout, part))))
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(checkout, file))
		check.OK(t, err)
		check.OK(t, os.WriteFile(filepath.Join(to, file), text, 0o600))
	}
}
