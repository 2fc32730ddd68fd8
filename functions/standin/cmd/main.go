// The checkers' stand-in, as a program.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/standin"
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("standin", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg standin.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	s, err := standin.New(cfg, log)
	if err != nil {
		return nil, err
	}
	secure, err := s.TLSConfig()
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: s, TLS: secure, MaxHeader: standin.MaxHeader, Background: s.Run}, nil
}
