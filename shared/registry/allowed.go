package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/problem"
)

// Bounds of a list of registries.
const (
	maxRegistries = 50
	maxRegistry   = 255 // characters
)

// anyRepository makes a registry, or the beginning of a repository's path, a whole repository.
const anyRepository = "/x/y"

// CheckRegistries checks a list of registries. Each is a host with an optional port and an
// optional beginning of a repository's path, e.g. "registry.example.com:5000/shop". It returns
// an invalid_registries problem otherwise.
func CheckRegistries(registries []string) error {
	if len(registries) > maxRegistries {
		return problem.New(problem.InvalidRegistries, "A project has at most %d registries.", maxRegistries)
	}
	for _, registry := range registries {
		if _, err := canonical(registry); err != nil {
			return err
		}
	}
	return nil
}

// CheckRegistry checks whether an image comes from one of the registries; an empty list is any. It
// returns a registry_not_allowed problem otherwise.
func CheckRegistry(reference string, registries []string) error {
	if len(registries) == 0 {
		return nil
	}
	ref, err := name.ParseReference(reference, name.WithDefaultTag(""))
	if err != nil {
		return problem.Of(problem.InvalidImage).Because(err)
	}
	repository := strings.ToLower(ref.Context().Name())
	allowed := slices.ContainsFunc(registries, func(registry string) bool {
		prefix, err := canonical(registry)
		return err == nil && strings.HasPrefix(repository, prefix+"/")
	})
	if !allowed {
		return problem.New(problem.RegistryNotAllowed, "The project does not allow images from %s.", ref.Context().Name())
	}
	return nil
}

// canonical returns a registry as it begins the names of repositories.
func canonical(registry string) (string, error) {
	emptyPart := strings.Contains("/"+registry+"/", "//")
	if emptyPart || len(registry) > maxRegistry || strings.ContainsFunc(registry, stray) || strings.Contains(registry, "@") {
		return "", problem.Of(problem.InvalidRegistries)
	}
	repository, err := name.NewRepository(registry + anyRepository)
	if err != nil {
		return "", problem.Of(problem.InvalidRegistries).Because(fmt.Errorf("registry %q: %w", registry, err))
	}
	if !validPath(repository.RepositoryStr()) {
		return "", problem.Of(problem.InvalidRegistries)
	}
	return strings.ToLower(strings.TrimSuffix(repository.Name(), anyRepository)), nil
}
