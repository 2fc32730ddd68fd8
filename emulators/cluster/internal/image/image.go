// Package image builds container images from files of this machine, and pushes them.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is a file of an image. Without From, Text and Link it is a folder.
type File struct {
	From  string
	Text  string
	Link  string
	Mode  int64 // 0 is 0755
	Owner int
	Caps  []byte // extended attribute security.capability
}

// Image is an image to build.
type Image struct {
	Repository string // e.g. "knative/serving-controller"
	Tag        string
	Files      map[string]File
	User       string
	Entrypoint []string
	Env        []string
	Volumes    []string
}

// WithLibraries adds programs and their libraries.
func (i *Image) WithLibraries(ctx context.Context, files ...string) error {
	for _, file := range files {
		if err := i.Libraries(ctx, file); err != nil {
			return err
		}
		i.Files[file] = File{From: file}
	}
	return nil
}

// Libraries adds the libraries of a program.
func (i *Image) Libraries(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("not a dynamic executable")) {
		return fmt.Errorf("find the libraries of %s: %w: %s", program, err, out)
	}
	for _, library := range regexp.MustCompile(`/[^ )]+\.so[^ )]*`).FindAllString(string(out), -1) {
		i.Files[library] = File{From: library}
	}
	return nil
}

// Push pushes an image unless the registry already has an image of the same files. It returns the
// reference with the digest.
func (i *Image) Push(ctx context.Context, registry string) (string, error) {
	key, err := i.key()
	if err != nil {
		return "", err
	}
	repository, err := name.NewRepository(registry+"/"+i.Repository, name.Insecure)
	if err != nil {
		return "", fmt.Errorf("name the image %s: %w", i.Repository, err)
	}
	made := repository.Tag("made-" + key)
	option := remote.WithContext(ctx)
	existing, err := remote.Head(made, option)
	var refused *transport.Error
	switch {
	case err == nil:
		return repository.Digest(existing.Digest.String()).String(), i.tag(repository, made, option)
	case !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound:
		return "", fmt.Errorf("look up the image %s: %w", i.Repository, err)
	}
	img, err := i.make()
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", i.Repository, err)
	}
	if err := remote.Write(made, img, option); err != nil {
		return "", fmt.Errorf("push the image %s: %w", i.Repository, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("build the image %s: %w", i.Repository, err)
	}
	return repository.Digest(digest.String()).String(), i.tag(repository, made, option)
}

func (i *Image) tag(repository name.Repository, made name.Tag, option remote.Option) error {
	descriptor, err := remote.Get(made, option)
	if err != nil {
		return fmt.Errorf("tag the image %s: %w", i.Repository, err)
	}
	tag := i.Tag
	if tag == "" {
		tag = "latest"
	}
	if err := remote.Tag(repository.Tag(tag), descriptor, option); err != nil {
		return fmt.Errorf("tag the image %s: %w", i.Repository, err)
	}
	return nil
}

// key identifies the files by size and modification time. That suffices because built programs
// are never overwritten.
func (i *Image) key() (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(i); err != nil {
		return "", fmt.Errorf("compute the key of the image %s: %w", i.Repository, err)
	}
	for _, place := range slices.Sorted(maps.Keys(i.Files)) {
		if from := i.Files[place].From; from != "" {
			info, err := os.Stat(from)
			if err != nil {
				return "", fmt.Errorf("compute the key of the image %s: %w", i.Repository, err)
			}
			_, _ = fmt.Fprintln(h, info.Size(), info.ModTime().UnixNano()) // a hash never fails
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:10]), nil
}

// make builds one layer. It is not compressed, because it stays on this machine.
func (i *Image) make() (v1.Image, error) {
	layer, err := i.layer()
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, static.NewLayer(layer, types.OCIUncompressedLayer)); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{User: i.User, Entrypoint: i.Entrypoint, Env: i.Env}
	for _, v := range i.Volumes {
		file.Config.Volumes = map[string]struct{}{v: {}}
	}
	return mutate.ConfigFile(img, file)
}

func (i *Image) layer() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	all := maps.Clone(i.Files)
	for place := range i.Files {
		for dir := range parents(place) {
			if _, ok := all[dir]; !ok {
				all[dir] = File{}
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(all)) {
		if err := all[place].write(w, place); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// parents returns "/usr" and "/usr/bin" for "/usr/bin/git".
func parents(place string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, c := range place {
			if c == '/' && i > 0 && !yield(place[:i]) {
				return
			}
		}
	}
}

func (f File) write(w *tar.Writer, place string) error {
	h := &tar.Header{Name: strings.TrimPrefix(place, "/"), Mode: f.Mode, Uid: f.Owner, Gid: f.Owner, Typeflag: tar.TypeReg}
	if h.Mode == 0 {
		h.Mode = 0o755
	}
	content := []byte(f.Text)
	var err error
	switch {
	case f.From != "":
		if content, err = os.ReadFile(f.From); err != nil {
			return err
		}
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	case f.Text == "":
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	}
	if f.Caps != nil {
		h.PAXRecords, h.Format = map[string]string{"SCHILY.xattr.security.capability": string(f.Caps)}, tar.FormatPAX
	}
	h.Size = int64(len(content))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
