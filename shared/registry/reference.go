package registry

import (
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/problem"
)

// maxReference bounds an image reference, in characters: 255 of a repository's
// name, 128 of a tag, a digest, and a registry's host.
const maxReference = 768

// Check takes a reference with a tag or a digest, as the registry's own parser
// reads it, e.g. "registry.example.com/shop/hello:1.4"; without either it would
// mean whatever "latest" is at the time. Problem: invalid_image.
func Check(reference string) error {
	if len(reference) > maxReference || strings.ContainsFunc(reference, stray) {
		return problem.Of(problem.InvalidImage)
	}
	ref, err := name.ParseReference(reference, name.WithDefaultTag(""))
	if err != nil {
		return problem.Of(problem.InvalidImage).Because(err)
	}
	if ref.Identifier() == "" || !validPath(ref.Context().RepositoryStr()) {
		return problem.Of(problem.InvalidImage)
	}
	return nil
}

// component is a part of a repository's path in the specification of the Open Container
// Initiative. The parser also takes "..", which leads a registry's client elsewhere.
var component = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)

// validPath reports whether each part of a repository's path is valid.
func validPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if !component.MatchString(part) {
			return false
		}
	}
	return true
}

// stray tells whether a character has no place in a reference. The parser looks at
// names and tags, but takes nearly anything for a registry's host, quotes included.
func stray(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-:/@+[]", c)
}
