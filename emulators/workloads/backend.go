package workloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	headerLimit  = 10 * time.Second
	closeLimit   = 2 * time.Second
	idleBackends = 5 * time.Minute
)

type backend struct {
	pod    atomic.Pointer[Pod]
	server *http.Server
	ended  chan struct{}
}

// Serve serves the echo app until ctx ends, for an image that runs elsewhere. pod returns the
// serving pod.
func Serve(ctx context.Context, address string, pod func(*http.Request) (Pod, bool), log *slog.Logger) error {
	b := &backend{ended: make(chan struct{})}
	if err := b.start(ctx, address, pod, log); err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	<-ctx.Done()
	b.close() //nolint:contextcheck // ctx has ended, and open requests may finish
	return nil
}

func listen(ctx context.Context, address string, pod Pod, log *slog.Logger) (*backend, error) {
	b := &backend{ended: make(chan struct{})}
	b.pod.Store(&pod)
	err := b.start(ctx, address, func(*http.Request) (Pod, bool) { return *b.pod.Load(), true }, log)
	if err != nil {
		return nil, fmt.Errorf("listen for %s in %s: %w", pod.App, pod.Namespace, err)
	}
	return b, nil
}

func (b *backend) start(ctx context.Context, address string, current func(*http.Request) (Pod, bool), log *slog.Logger) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	e := &echo{log: log, current: current}
	b.server = &http.Server{
		Handler:           e.handler(),
		ConnContext:       withTap,
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleBackends,
		MaxHeaderBytes:    headLimit,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(b.ended)
		if err := b.server.Serve(tapListener{l}); !errors.Is(err, http.ErrServerClosed) {
			log.Error("backend failed", "address", address, "error", err)
		}
	}()
	return nil
}

func (b *backend) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	<-b.ended
}
