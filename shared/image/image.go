// Package image checks references to container images: the one rule for every
// way in which an app gets its image (promise D5).
package image

import (
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
	if ref.Identifier() == "" {
		return problem.Of(problem.InvalidImage)
	}
	return nil
}

// stray tells whether a character has no place in a reference. The parser looks at
// names and tags, but takes nearly anything for a registry's host, quotes included.
func stray(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-:/@+[]", c)
}
