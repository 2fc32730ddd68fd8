// Command rollup runs the rollup function. With --once, it performs a single run; its exit status
// is 1 if the run fails.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluicegate/sluice/functions/rollup"
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() {
	once := flag.Bool("once", false, "perform a single run")
	flag.Parse()
	if !*once {
		funcmain.Main("rollup")
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := rollup.Once(ctx, slog.New(slog.NewJSONHandler(os.Stderr, nil)).With("function", "rollup"))
	stop()
	if err != nil {
		os.Exit(1)
	}
}
