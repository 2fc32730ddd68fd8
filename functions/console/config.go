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
	"github.com/sluicegate/sluice/shared/trace"
)

// Config is what the function reads from its environment.
type Config struct {
	// APIURL is where the management API answers, without /api/v1: {base_url}, or an
	// address inside the cluster. The console calls it as any client does.
	APIURL string `env:"API_URL, required"`

	// Console has the secret by which the functions believe the console about the addresses of
	// its clients. Without it, they see all people as one client, with the console's address.
	trace.Console

	// Timeout bounds one call of the API. A person waits for it, and a page makes a few
	// at the same time.
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

// checkURL takes an http or https address without what the API's paths would be
// mixed up with.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("must be like https://sluice.example.com")
	}
	if strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/api/v1") {
		return errors.New("comes without /api/v1")
	}
	return nil
}

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("console", newFunction) }

// newFunction puts the function together.
func newFunction(_ context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	service, err := New(cfg, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: service.Handler()}, nil
}
