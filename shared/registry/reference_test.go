package registry

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/problem"
)

const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"hello:1", "shop/hello:v1.4-rc.1", "registry.example.com/shop/hello:2", "registry.example.com:5000/shop/hello:2",
		"localhost:5000/hello:2", "registry.example.com/a__b/c--d/e.f_g:1", "127.0.0.1:5000/hello:2", "hello@" + digest, "registry.example.com/hello:2@" + digest,
	} {
		if err := Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "hello", "registry.example.com/hello", "registry.example.com:5000/hello", "hello:", ":1", "Hello:1", "hello:1 ", " hello:1",
		"hello:1\n", "hello:\x00", "https://registry.example.com/hello:1", "hello@", "hello@sha256:9f86", "hello:1@md5:" + strings.Repeat("a", 32),
		"hello@" + digest + "@" + digest, "hello:" + strings.Repeat("a", 129), strings.Repeat("a/", 500) + "a:1",
		"registry.example.com/shop/../evil/hello:1", "registry.example.com/./hello:1", "registry.example.com/shop//hello:1",
		"registry.example.com/-hello:1", "registry.example.com/hello-:1", "registry.example.com/...:1",
	} {
		if err := Check(bad); !problem.Is(err, problem.InvalidImage) {
			t.Errorf("%.80q: %v", bad, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("registry.example.com:5000/shop/hello:2@" + digest)
	f.Add("hello")
	f.Fuzz(func(t *testing.T, reference string) {
		if Check(reference) != nil {
			return
		}
		if _, err := name.ParseReference(reference); err != nil {
			t.Errorf("%q is accepted, but cannot be parsed: %v", reference, err)
		}
		if strings.ContainsAny(reference, " \t\r\n\x00\"'\\") {
			t.Errorf("%q is accepted", reference)
		}
	})
}
