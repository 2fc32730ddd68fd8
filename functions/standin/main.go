package standin

import (
	"context"
	"log/slog"

	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/funcmain"
)

// Main runs a stand-in as this process until SIGTERM or SIGINT, and exits with 1 if that fails.
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
