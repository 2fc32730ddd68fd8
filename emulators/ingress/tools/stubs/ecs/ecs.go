// Package ecs stands for the provider that finds routes in Amazon's ECS. It finds none.
package ecs

import (
	"errors"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider can be named in a configuration, and then Traefik logs that it is not there.
type Provider struct{}

// Init fails.
func (*Provider) Init() error { return errors.New("provider ecs: left out of this build") }

// Provide is not called, since Init fails.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }
