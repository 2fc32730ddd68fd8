// Package registry is an OCI registry on disk that can create images on demand.
package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// These images do not exist, so that tests can pull an image that is missing or broken.
const (
	brokenTag = "broken"
	missing   = "missing/"
)

// Registry is an [http.Handler].
type Registry struct {
	next    http.Handler // manifests in memory, blobs on disk
	dir     string
	address string
	mirror  string // images of this registry are created from base
	base    string // e.g. "platform/echo:latest"

	making sync.Mutex
}

// New opens the registry in a directory. It creates images of the registry mirror from base
// when a client requests them, except the tag "broken" and repositories below "missing".
func New(dir, address, mirror, base string) (*Registry, error) {
	blobs := filepath.Join(dir, "blobs")
	r := &Registry{
		dir: filepath.Join(dir, "manifests"), address: address, mirror: mirror, base: base,
		next: registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))),
	}
	for _, d := range []string{blobs, r.dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of images: %w", err)
		}
	}
	return r, r.load()
}

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	repository, reference, ok := manifestOf(req.URL.Path)
	switch {
	case ok && req.Method == http.MethodPut:
		r.put(w, req, repository, reference)
	case ok && req.Method != http.MethodDelete && req.URL.Query().Get("ns") == r.mirror && !strings.Contains(reference, ":"):
		if err := r.make(repository, reference); err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		r.next.ServeHTTP(w, req)
	default:
		r.next.ServeHTTP(w, req)
	}
}

func manifestOf(p string) (repository, reference string, ok bool) {
	p, ok = strings.CutPrefix(p, "/v2/")
	i := strings.LastIndex(p, "/manifests/")
	if !ok || i < 1 {
		return "", "", false
	}
	return p[:i], p[i+len("/manifests/"):], true
}

// put stores a manifest in memory and on disk.
func (r *Registry) put(w http.ResponseWriter, req *http.Request, repository, reference string) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	response := &recorder{ResponseWriter: w}
	r.next.ServeHTTP(response, req)
	if response.status >= http.StatusBadRequest {
		return
	}
	dir := filepath.Join(r.dir, url.PathEscape(repository))
	text := append([]byte(req.Header.Get("Content-Type")+"\n"), body...)
	if err := errors.Join(os.MkdirAll(dir, 0o700), replace(filepath.Join(dir, reference), text)); err != nil {
		log.Printf("write manifest failed: %v", err) // the next start of the cluster pushes it again
	}
}

func replace(file string, text []byte) error {
	part, err := os.CreateTemp(filepath.Dir(filepath.Dir(file)), "part-*")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}

type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// load reads the manifests. Indexes come last, because they refer to images.
func (r *Registry) load() error {
	var indexes []*http.Request
	files := os.DirFS(r.dir)
	err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		folder := path.Dir(file)
		if err != nil || d.IsDir() || folder == "." {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		repository, err := url.PathUnescape(folder)
		if err != nil {
			return err
		}
		kind, body, _ := bytes.Cut(text, []byte("\n"))
		req := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+d.Name(), bytes.NewReader(body)) //nolint:noctx // handled in this process
		req.Header.Set("Content-Type", string(kind))
		if types.MediaType(kind).IsIndex() {
			indexes = append(indexes, req)
			return nil
		}
		return r.restore(req)
	})
	for _, req := range indexes {
		err = errors.Join(err, r.restore(req))
	}
	if err != nil {
		return fmt.Errorf("read the images in %s: %w", r.dir, err)
	}
	return nil
}

func (r *Registry) restore(req *http.Request) error {
	response := httptest.NewRecorder()
	r.next.ServeHTTP(response, req)
	if response.Code >= http.StatusBadRequest {
		return fmt.Errorf("%s: %d %s", req.URL.Path, response.Code, response.Body)
	}
	return nil
}

// make creates an image with its own digest if it does not exist.
func (r *Registry) make(repository, tag string) error {
	r.making.Lock()
	defer r.making.Unlock()
	if tag == brokenTag || strings.HasPrefix(repository, missing) {
		return errors.New("image does not exist")
	}
	ref, err := name.NewTag(r.address+"/"+repository+":"+tag, name.Insecure)
	if err != nil {
		return err
	}
	if _, err := remote.Head(ref); err == nil {
		return nil
	}
	base, err := name.NewTag(r.address+"/"+r.base, name.Insecure)
	if err != nil {
		return err
	}
	img, err := remote.Image(base)
	if err != nil {
		return err
	}
	if img, err = label(img, repository+":"+tag); err != nil {
		return err
	}
	return remote.Write(ref, img)
}

func label(img v1.Image, text string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := file.DeepCopy().Config
	config.Labels = map[string]string{"org.opencontainers.image.ref.name": text}
	return mutate.Config(img, config)
}
