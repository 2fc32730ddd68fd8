// Package plugins is a stub for Traefik's plugins, which run in Yaegi and WebAssembly.
package plugins

import (
	"context"
	"errors"
	"net/http"

	"github.com/traefik/traefik/v3/pkg/provider"
)

// Constructor makes the handler of a plugin.
type Constructor func(context.Context, http.Handler) (http.Handler, error)

// Descriptor can be configured.
type Descriptor struct{ ModuleName, Version string }

// LocalDescriptor can be configured.
type LocalDescriptor struct{ ModuleName string }

// Builder is the builder of plugins.
type Builder struct{}

// Manager is the manager of plugins.
type Manager struct{}

// ManagerOptions are the options of a Manager.
type ManagerOptions struct{ Output string }

// RegistryDownloaderOptions are the options of a RegistryDownloader.
type RegistryDownloaderOptions struct {
	HTTPClient   *http.Client
	ArchivesPath string
}

// RegistryDownloader downloads plugins.
type RegistryDownloader struct{}

func leftOut() error { return errors.New("plugins: left out of this build") }

// NewRegistryDownloader returns an error.
func NewRegistryDownloader(RegistryDownloaderOptions) (*RegistryDownloader, error) {
	return nil, leftOut()
}

// NewManager returns an error.
func NewManager(*RegistryDownloader, ManagerOptions) (*Manager, error) { return nil, leftOut() }

// SetupRemotePlugins returns an error.
func SetupRemotePlugins(*Manager, map[string]Descriptor) error { return leftOut() }

// SetupLocalPlugins returns an error.
func SetupLocalPlugins(map[string]LocalDescriptor) error { return leftOut() }

// NewBuilder returns a builder without plugins.
func NewBuilder(*Manager, map[string]Descriptor, map[string]LocalDescriptor) (*Builder, error) {
	return &Builder{}, nil
}

// Build returns an error.
func (*Builder) Build(string, map[string]any, string) (Constructor, error) { return nil, leftOut() }

// BuildProvider returns an error.
func (*Builder) BuildProvider(string, map[string]any) (provider.Provider, error) {
	return nil, leftOut()
}
