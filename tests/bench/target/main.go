// Target is what the benchmarks send requests to: a checker whose store is this
// process's own memory, or a handler that does nothing, both served as every
// function is.
//
//	ROLE=bare|checker KEYS=1000000 PORT=… target
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/tests/bench/load"
)

type config struct {
	Role string `env:"ROLE, required"` // bare or checker
	Keys int    `env:"KEYS, default=0"`
}

func main() { funcmain.Main("target", build) }

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	var cfg config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if cfg.Role == "bare" {
		return &funcmain.Function{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
			MaxHeader: checker.MaxHeader,
		}, nil
	}
	m := newMemory(load.Keys(cfg.Keys))
	c, err := checker.New(checker.Config{
		Replica: "bench", MaxStaleness: checker.Ceiling, CanaryInterval: 15 * time.Second, FlushInterval: 2 * time.Second,
	}, m, m, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: c, MaxHeader: checker.MaxHeader, Background: c.Run}, nil
}
