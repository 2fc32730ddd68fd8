// Package knative is a stub for Traefik's Knative provider.
package knative

import (
	"errors"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// Provider can be configured. Traefik then logs the error of Init.
type Provider struct{}

// Init returns an error.
func (*Provider) Init() error { return errors.New("provider knative: left out of this build") }

// Provide does nothing. Traefik does not call it after an error of Init.
func (*Provider) Provide(chan<- dynamic.Message, *safe.Pool) error { return nil }
