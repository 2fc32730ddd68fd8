package registry

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestCheckRegistry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		image      string
		registries []string
		allowed    bool
	}{
		{name: "any", image: "hello:1", allowed: true},
		{name: "the registry", image: "ghcr.io/acme/hello:1", registries: []string{"ghcr.io"}, allowed: true},
		{name: "one of several", image: "ghcr.io/acme/hello:1", registries: []string{"quay.io", "ghcr.io"}, allowed: true},
		{name: "another registry", image: "quay.io/acme/hello:1", registries: []string{"ghcr.io"}},
		{name: "another port", image: "ghcr.io:5000/acme/hello:1", registries: []string{"ghcr.io"}},
		{name: "the port", image: "localhost:5000/hello:1", registries: []string{"localhost:5000"}, allowed: true},
		{name: "a longer host", image: "ghcr.io.example.com/acme/hello:1", registries: []string{"ghcr.io"}},
		{name: "the path", image: "ghcr.io/acme/hello:1", registries: []string{"ghcr.io/acme"}, allowed: true},
		{name: "a longer path", image: "ghcr.io/acme-evil/hello:1", registries: []string{"ghcr.io/acme"}},
		{name: "another path", image: "ghcr.io/other/hello:1", registries: []string{"ghcr.io/acme"}},
		{name: "upper case", image: "GHCR.IO/acme/hello:1", registries: []string{"ghcr.io/acme"}, allowed: true},
		{name: "Docker Hub", image: "hello:1", registries: []string{"docker.io"}, allowed: true},
		{name: "an organization of Docker Hub", image: "acme/hello:1", registries: []string{"docker.io/acme"}, allowed: true},
		{name: "without Docker Hub", image: "acme/hello:1", registries: []string{"ghcr.io"}},
		{name: "a digest", image: "ghcr.io/acme/hello@" + digest, registries: []string{"ghcr.io"}, allowed: true},
		{name: "a damaged list", image: "ghcr.io/acme/hello:1", registries: []string{"https://ghcr.io"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckRegistry(tt.image, tt.registries)
			if (err == nil) != tt.allowed || err != nil && !problem.Is(err, problem.RegistryNotAllowed) {
				t.Errorf("got %v, want allowed %v", err, tt.allowed)
			}
		})
	}
}

func TestCheckRegistries(t *testing.T) {
	t.Parallel()
	if err := CheckRegistries([]string{"ghcr.io", "ghcr.io/acme/team", "localhost:5000", "docker.io", "127.0.0.1:5000"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "https://ghcr.io", "ghcr.io/", "ghcr.io/Acme", "ghcr.io/acme:1", "ghcr.io/..", "ghcr.io/acme/./team", "ghcr.io/acme@" + digest, "ghcr .io", strings.Repeat("a", 256)} {
		if err := CheckRegistries([]string{bad}); !problem.Is(err, problem.InvalidRegistries) {
			t.Errorf("%.80q: got %v, want invalid_registries", bad, err)
		}
	}
	if err := CheckRegistries(make([]string, maxRegistries+1)); !problem.Is(err, problem.InvalidRegistries) {
		t.Errorf("too many: got %v, want invalid_registries", err)
	}
}
