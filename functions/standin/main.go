package standin

import (
	"context"
	"log/slog"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/funcmain"
)

// Main runs a stand-in until SIGTERM or SIGINT. It exits with 1 on failure.
func Main() { funcmain.Serve("standin", build) }

func build(_ context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	s, err := New(cfg, log)
	if err != nil {
		return nil, err
	}
	secure, err := s.TLSConfig()
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: s, TLS: secure, MaxHeader: denial.MaxHeader, Background: s.Run}, nil
}
