package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/problem"
)

const (
	maxRegistries = 50
	maxRegistry   = 255 // characters
)

// anyRepository turns a registry or path prefix into the name of a repository.
const anyRepository = "/x/y"

// CheckRegistries returns an invalid_registries problem unless each registry is a host with an
// optional port and path prefix, e.g. "registry.example.com:5000/shop".
func CheckRegistries(registries []string) error {
	if len(registries) > maxRegistries {
		return problem.New(problem.InvalidRegistries, "A project can have at most %d registries. Remove some.", maxRegistries)
	}
	for _, registry := range registries {
		if _, err := canonical(registry); err != nil {
			return err
		}
	}
	return nil
}

// CheckRegistry returns a registry_not_allowed problem unless an image is in one of the
// registries. An empty list allows all.
func CheckRegistry(reference string, registries []string) error {
	if len(registries) == 0 {
		return nil
	}
	ref, err := name.ParseReference(reference, name.WithDefaultTag(""))
	if err != nil {
		return problem.FromCode(problem.InvalidImage).WithCause(err)
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

// canonical returns the prefix that the names of a registry's repositories have.
func canonical(registry string) (string, error) {
	emptyPart := strings.Contains("/"+registry+"/", "//")
	if emptyPart || len(registry) > maxRegistry || strings.ContainsFunc(registry, stray) || strings.Contains(registry, "@") {
		return "", problem.FromCode(problem.InvalidRegistries)
	}
	repository, err := name.NewRepository(registry + anyRepository)
	if err != nil {
		return "", problem.FromCode(problem.InvalidRegistries).WithCause(fmt.Errorf("registry %q: %w", registry, err))
	}
	if !validPath(repository.RepositoryStr()) {
		return "", problem.FromCode(problem.InvalidRegistries)
	}
	return strings.ToLower(strings.TrimSuffix(repository.Name(), anyRepository)), nil
}
