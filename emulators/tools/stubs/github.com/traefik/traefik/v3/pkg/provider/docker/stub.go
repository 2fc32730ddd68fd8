// Package docker is a stub for Traefik's Docker and Swarm providers.
package docker

import (
	"errors"

	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider can be configured. Traefik then logs the error of Init.
type Provider struct{ HTTPClientTimeout ptypes.Duration }

// Init returns an error.
func (*Provider) Init() error { return errors.New("provider docker: left out of this build") }

// Provide does nothing. Traefik does not call it after an error of Init.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }

// SwarmProvider can be configured, like Provider.
type SwarmProvider struct {
	Provider       `yaml:",inline"`
	RefreshSeconds ptypes.Duration
}
