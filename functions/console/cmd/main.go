// Command console runs the console function.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/console"
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("console", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg console.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	service, err := console.New(cfg, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: service.Handler()}, nil
}
