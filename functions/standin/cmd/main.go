// The checkers' stand-in, as a program.
package main

import (
	"context"
	"log/slog"

	"github.com/sluicegate/sluice/functions/standin"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Serve("standin", build) }

func build(_ context.Context, cfg standin.Config, log *slog.Logger) (*funcmain.Function, error) {
	s, err := standin.New(cfg, log)
	if err != nil {
		return nil, err
	}
	secure, err := s.TLSConfig()
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: s, TLS: secure, MaxHeader: denial.MaxHeader, Background: s.Run}, nil
}
