package metrics

import (
	"context"

	"github.com/rs/zerolog/log"

	otypes "github.com/traefik/traefik/v3/pkg/observability/types"
)

// RegisterStatsd logs an error and returns a registry without metrics.
func RegisterStatsd(ctx context.Context, _ *otypes.Statsd) Registry {
	log.Ctx(ctx).Error().Msg("metrics of Statsd: left out of this build")
	return NewVoidRegistry()
}

// StopStatsd does nothing.
func StopStatsd() {}
