package registry

import (
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/problem"
)

// maxReference is the maximum length of an image reference: a repository name of 255 characters, a
// tag of 128, a digest, and the registry's host.
const maxReference = 768

// Check returns an invalid_image problem unless a reference is valid and has a tag or a digest,
// e.g. "registry.example.com/shop/hello:1.4".
func Check(reference string) error {
	if len(reference) > maxReference || strings.ContainsFunc(reference, stray) {
		return problem.FromCode(problem.InvalidImage)
	}
	ref, err := name.ParseReference(reference, name.WithDefaultTag(""))
	if err != nil {
		return problem.FromCode(problem.InvalidImage).WithCause(err)
	}
	if ref.Identifier() == "" || !validPath(ref.Context().RepositoryStr()) {
		return problem.FromCode(problem.InvalidImage)
	}
	return nil
}

// component matches a path component in the OCI specification. The parser also accepts "..",
// which would change the URL of a request.
var component = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)

func validPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if !component.MatchString(part) {
			return false
		}
	}
	return true
}

// stray reports whether a character is not allowed in references. The parser accepts nearly any
// character in a host, including quotes.
func stray(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-:/@+[]", c)
}
