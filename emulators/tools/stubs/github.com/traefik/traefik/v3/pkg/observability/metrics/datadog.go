package metrics

import (
	"context"

	"github.com/rs/zerolog/log"

	otypes "github.com/traefik/traefik/v3/pkg/observability/types"
)

// RegisterDatadog logs an error and returns a registry without metrics.
func RegisterDatadog(ctx context.Context, _ *otypes.Datadog) Registry {
	log.Ctx(ctx).Error().Msg("metrics of Datadog: left out of this build")
	return NewVoidRegistry()
}

// StopDatadog does nothing.
func StopDatadog() {}
