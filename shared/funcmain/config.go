package funcmain

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// Config is the common configuration of all functions. PORT, FUNCTION_TARGET and K_SINK follow
// the functions-framework and Knative contract.
//
// A pod's termination grace period must be longer than the drain plus [span.Closing], and 20 s
// longer for the checker. The listener closes at SIGTERM. A pod behind a Service therefore needs a
// preStop pause until the Service no longer routes to it.
type Config struct {
	Host        string `env:"HOST"`               // "" for all
	Port        int    `env:"PORT, default=8080"` // 0 for any
	Target      string `env:"FUNCTION_TARGET"`    // must be this function's name if set
	LogLevel    string `env:"LOG_LEVEL, default=info"`
	MetricsPort int    `env:"METRICS_PORT, default=0"`    // 0 for none
	Drain       int    `env:"DRAIN_SECONDS, default=20"`  // for open requests after SIGTERM
	Read        int    `env:"READ_SECONDS, default=30"`   // for a whole request
	Write       int    `env:"WRITE_SECONDS, default=60"`  // from the request's header to the end of the response
	Idle        int    `env:"IDLE_SECONDS, default=120"`  // between requests
	Header      int    `env:"HEADER_SECONDS, default=10"` // for a request's header

	// Proxies are the trusted proxies between clients and the function. They determine the client
	// addresses in audit records and for rate limits.
	Proxies reqctx.Proxies `env:"TRUSTED_PROXIES"`
	reqctx.Console

	span.Settings
}

func (c Config) level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("LOG_LEVEL: %w", err)
	}
	return l, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
