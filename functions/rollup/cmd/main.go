// Command rollup runs the rollup function; with --once it does one run and ends,
// with status 1 when that fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/functions/rollup"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

func main() {
	once := flag.Bool("once", false, "do one run and end")
	flag.Parse()
	if *once {
		os.Exit(runOnce())
	}
	funcmain.Main("rollup", build)
}

func build(ctx context.Context, log *slog.Logger) (*funcmain.Function, error) {
	service, st, err := open(ctx, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler:    funcmain.Events(log, service.Receive),
		Collectors: service.Collectors(),
		Store:      st,
		Close:      func(context.Context) error { return st.Close() },
	}, nil
}

func runOnce() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("function", "rollup")
	service, st, err := open(ctx, log)
	if err != nil {
		log.Error("run not begun", "error", err)
		return 1
	}
	defer func() { _ = st.Close() }() // the process ends
	if err := service.Once(ctx); err != nil {
		return 1
	}
	return 0
}

// open puts the service together.
func open(ctx context.Context, log *slog.Logger) (*rollup.Service, *store.Store, error) {
	var cfg rollup.Config
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, nil, err
	}
	return rollup.New(rollup.Parts{Config: cfg, Counters: st, Rollups: st, Marks: st, Canaries: st, Keys: st, Audit: st, Log: log}), st, nil
}
