package standin

import (
	"fmt"
	"net/url"
	"time"
)

// Config is the stand-in's configuration.
type Config struct {
	// CheckersURL is the URL of a Service whose only endpoints are the checkers, e.g.
	// "https://sluice-checker-replicas.sluice-system.svc:8443".
	CheckersURL string `env:"CHECKERS_URL, required"`

	TLSDir string `env:"TLS_DIR, required"`

	Interval time.Duration `env:"INTERVAL, default=250ms"`

	Limit time.Duration `env:"LIMIT, default=1s"`
}

// Check returns an error if a setting is invalid.
func (c Config) Check() error {
	u, err := url.Parse(c.CheckersURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "":
		return fmt.Errorf("CHECKERS_URL %q must be https://host:port", c.CheckersURL)
	case c.Interval <= 0 || c.Interval > time.Minute:
		return fmt.Errorf("INTERVAL is %v, must be above 0 and at most 1m", c.Interval)
	case c.Limit <= 0 || c.Limit > time.Minute:
		return fmt.Errorf("LIMIT is %v, must be above 0 and at most 1m", c.Limit)
	}
	return nil
}
