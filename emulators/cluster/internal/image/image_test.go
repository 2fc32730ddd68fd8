package image

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluicegate/sluice/tests/check"
)

func TestPush(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	program := filepath.Join(t.TempDir(), "hello")
	check.OK(t, os.WriteFile(program, []byte("program"), 0o600))
	i := &Image{Repository: "shop/hello", Tag: "1", User: "65532", Entrypoint: []string{"/bin/hello"}, Files: map[string]File{
		"/bin/hello": {From: program, Caps: []byte{1}}, "/bin/hi": {Link: "hello"}, "/tmp": {Mode: 0o1777}, "/etc/users": {Text: "root", Mode: 0o644, Owner: 7},
	}}
	push := func() string {
		ref, err := i.Push(t.Context(), address)
		check.OK(t, err)
		return ref
	}
	first := push()
	if second := push(); second != first {
		t.Errorf("got %s, then %s for the same files", first, second)
	}
	ref, err := name.ParseReference(address + "/shop/hello:1")
	check.OK(t, err)
	img, err := remote.Image(ref)
	check.OK(t, err)
	want := map[string]string{"bin": "5", "bin/hello": "0 program", "bin/hi": "2 hello", "etc": "5", "etc/users": "0 root", "tmp": "5"}
	got := map[string]string{}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check.OK(t, err)
		text, err := io.ReadAll(r)
		check.OK(t, err)
		got[h.Name] = strings.TrimSpace(string(h.Typeflag) + " " + h.Linkname + string(text))
	}
	check.Equal(t, "files", want, got)
	check.OK(t, errors.Join(os.WriteFile(program, []byte("another"), 0o600), os.Chtimes(program, time.Now(), time.Now().Add(time.Minute))))
	if third := push(); third == first {
		t.Error("got the same image for another program")
	}
}
