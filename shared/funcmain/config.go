package funcmain

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

// Config is what every function reads from its environment, whatever it does.
// PORT, FUNCTION_TARGET and K_SINK are the functions-framework and Knative contract.
//
// A pod's grace period must be longer than the drain and what comes after it: the
// checker then takes up to 20 s more for its last flush, and each the time of
// [span.Closing] for its last spans. The listener closes at the
// signal, so a pod behind a Service should also have a preStop pause of some
// seconds, in which the Service's endpoints forget it.
type Config struct {
	Host        string `env:"HOST"`                       // address to listen on; empty is every one
	Port        int    `env:"PORT, default=8080"`         // 0 takes a free one
	Target      string `env:"FUNCTION_TARGET"`            // must be this function's name when set
	LogLevel    string `env:"LOG_LEVEL, default=info"`    // debug, info, warn, error
	MetricsPort int    `env:"METRICS_PORT, default=0"`    // Prometheus /metrics on its own port; 0 is off
	Drain       int    `env:"DRAIN_SECONDS, default=20"`  // for open requests after SIGTERM; see below
	Read        int    `env:"READ_SECONDS, default=30"`   // for a whole request
	Write       int    `env:"WRITE_SECONDS, default=60"`  // from a request's header to the end of its answer
	Idle        int    `env:"IDLE_SECONDS, default=120"`  // between requests of a connection
	Header      int    `env:"HEADER_SECONDS, default=10"` // for a request's header

	// Proxies are the proxies between clients and the function: networks, addresses and host
	// names. Only these proxies, and the console, are believed about a client's address, for
	// audit records and limits.
	Proxies trace.Proxies `env:"TRUSTED_PROXIES"`
	trace.Console

	span.Settings // where to spans are exported, and which; nowhere by default
}

func (c Config) level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("LOG_LEVEL: %w", err)
	}
	return l, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
