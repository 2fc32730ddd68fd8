// The builds emulator, as a program: $KUBECONFIG says which API server, $BUILDS_SINK
// where events go, $HOST and $PORT where GET /healthz answers 200 once it knows what
// is there. The API server must know PipelineRuns already.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/builds"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "builds: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c, err := builds.New(config, builds.Options{Sink: os.Getenv("BUILDS_SINK")}, log)
	if err != nil {
		return err
	}
	server := health(c)
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	select {
	case err = <-failed:
		cancel()
		return errors.Join(fmt.Errorf("serve health: %w", err), <-ended)
	case err = <-ended:
		return errors.Join(err, server.Close())
	}
}

func health(c *builds.Controller) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return &http.Server{
		Addr:              net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")),
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
	}
}
