package metrics

import (
	"context"

	"github.com/rs/zerolog/log"

	otypes "github.com/traefik/traefik/v3/pkg/observability/types"
)

// RegisterInfluxDB2 logs an error and returns a registry without metrics.
func RegisterInfluxDB2(ctx context.Context, _ *otypes.InfluxDB2) Registry {
	log.Ctx(ctx).Error().Msg("metrics of InfluxDB2: left out of this build")
	return NewVoidRegistry()
}

// StopInfluxDB2 does nothing.
func StopInfluxDB2() {}
