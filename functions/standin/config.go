package standin

import (
	"fmt"
	"net/url"
	"time"
)

// Config is the stand-in's environment.
type Config struct {
	// CheckersURL is the Service that has the checkers alone as endpoints, e.g.
	// "https://sluice-checker-replicas.sluice-system.svc:8443".
	CheckersURL string `env:"CHECKERS_URL, required"`

	TLSDir string `env:"TLS_DIR, required"` // holds tls.crt and tls.key; read again when they change

	// Interval is from one look for the checkers to the next: a part of the time
	// in which clients get the proxy's answer instead of the gate's.
	Interval time.Duration `env:"INTERVAL, default=250ms"`

	// Limit is for one look. A checker that takes longer counts as out of reach, so
	// it is far longer than an answer takes.
	Limit time.Duration `env:"LIMIT, default=1s"`
}

// Check refuses what cannot work.
func (c Config) Check() error {
	u, err := url.Parse(c.CheckersURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "":
		return fmt.Errorf("CHECKERS_URL %q is not https://host:port", c.CheckersURL)
	case c.Interval <= 0 || c.Interval > time.Minute:
		return fmt.Errorf("INTERVAL is %v, but must be above 0 and at most 1m", c.Interval)
	case c.Limit <= 0 || c.Limit > time.Minute:
		return fmt.Errorf("LIMIT is %v, but must be above 0 and at most 1m", c.Limit)
	}
	return nil
}
