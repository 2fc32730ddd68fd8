package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Config is the configuration from environment variables.
type Config struct {
	// APIURL is the base URL of the management API, without /api/v1. It may be a URL inside the
	// cluster.
	APIURL string `env:"API_URL, required"`

	// Console contains the secret with which the console signs the addresses of its clients.
	// Without it, all users count as one client with the address of the console.
	reqctx.Console

	Timeout time.Duration `env:"API_TIMEOUT, default=10s"`
}

func (c Config) check() error {
	if err := checkURL(c.APIURL); err != nil {
		return fmt.Errorf("API_URL: %w", err)
	}
	if c.Timeout <= 0 {
		return errors.New("API_TIMEOUT must be positive")
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("must be a URL like https://sluice.example.com")
	}
	if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1") {
		return errors.New("must not end with /api/v1")
	}
	return nil
}

//nolint:gochecknoinits // registers the function with the functions framework
func init() { funcmain.HTTP("console", newFunction) }

func newFunction(_ context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	service, err := New(cfg, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: service.Handler()}, nil
}
