// Package program is the main program of an emulator that watches the API server of
// $KUBECONFIG. GET /healthz at $HOST and $PORT returns 200 once the emulator has read the
// existing objects.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// CallLimit is the time limit for one call of an emulator.
const CallLimit = 10 * time.Second

// Controller is an emulator.
type Controller interface {
	Run(ctx context.Context) error
	Ready() bool
}

// Main runs an emulator until SIGTERM, and exits with 1 if it fails.
func Main(name string, open func(*rest.Config, *slog.Logger) (Controller, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, open)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, open func(*rest.Config, *slog.Logger) (Controller, error)) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c, err := open(config, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
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

func health(c Controller) *http.Server {
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

// WriteStatus merges fields into an object's status and returns the object.
func WriteStatus(ctx context.Context, objects dynamic.ResourceInterface, name string, fields map[string]any) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return nil, fmt.Errorf("encode the status of %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	object, err := objects.Patch(ctx, name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("write the status of %s: %w", name, err)
	}
	return object, nil
}
