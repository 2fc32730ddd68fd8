// Package funcmain runs a function as a process: configuration, logging, the functions-framework
// contract, a server with timeouts, and a drain on SIGTERM.
//
// A function's package registers it with [HTTP] or [CloudEvent], so that the framework's server,
// a buildpack or "gcloud functions deploy" can host it. That server has no timeouts and no
// graceful shutdown, so the program in functions/NAME/cmd uses this package to serve the same
// handler ([Main]). The checker and the stand-in are not registered; they use [Serve].
//
// GET /healthz and OpenFaaS's /_/health and /_/ready return 200, unless the function has its own
// routes there.
//
// GET /metrics on $METRICS_PORT serves these Prometheus metrics and the function's own:
//
//	sluice_build_info{function,version,revision,go_version}
//	sluice_http_requests_total{route,method,code}        route is the pattern, or "none"
//	sluice_http_request_duration_seconds{route}
//	sluice_http_panics_total, sluice_api_panics_total    outside of and inside the API's handlers
//	sluice_store_operations_total{op,outcome}            e.g. commit, OK
//	sluice_store_operation_duration_seconds{op}
//	sluice_spans_total{outcome}                          exported, failed, dropped; see package span
//	go_*, process_*
package funcmain

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sethvargo/go-envconfig"

	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// Function is a function to serve. Handler or Receive is required; all other fields are optional.
type Function struct {
	Handler http.Handler
	Receive Receive // for an event function, instead of Handler
	TLS     *tls.Config

	Collectors []prometheus.Collector

	// Store is observed for metrics. It is closed after Close returns.
	Store Store

	// Private serves all paths except /metrics on $METRICS_PORT, for operators.
	Private http.Handler

	// Lean is true if the handler itself sets request IDs and counts requests.
	Lean bool

	// Spans receives the tracer of a Lean handler, if spans are exported.
	Spans func(t *span.Tracer)

	// Connected is called for each new connection; see [http.Server.ConnContext].
	Connected func(ctx context.Context, c net.Conn) context.Context

	// MaxHeader is the maximum size of a request's header in bytes; 0 means 64 KiB.
	MaxHeader int

	// Background runs until its context ends. An error ends the process.
	Background func(ctx context.Context) error

	// Close is called after the last request and after Background.
	Close func(ctx context.Context) error
}

// Store reports its calls; *store.Store implements it. lasting is true for listeners.
type Store interface {
	Observe(called func(op, outcome string, took time.Duration, lasting bool))
	Close() error
}

// Build creates a function from its configuration. ctx ends with the process.
type Build[C any] func(ctx context.Context, cfg C, log *slog.Logger) (*Function, error)

// Main runs the registered function until SIGTERM or SIGINT. It exits with status 1 on failure.
func Main(target string) {
	h := registered[target]
	if h == nil {
		exitOn(target, errors.New("not registered by a package of this program"))
	}
	h.main()
}

// Serve is like [Main] for a program that is not registered as a function.
func Serve[C any](target string, build Build[C]) { host(target, build).main() }

func (h *hosted) main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := h.run(ctx)
	stop()
	exitOn(h.name, err)
}

func exitOn(target string, err error) {
	if err != nil {
		slog.New(slog.NewJSONHandler(printable{os.Stderr}, nil)).Error("function failed", "function", target, "error", err.Error())
		os.Exit(1)
	}
}

func (h *hosted) run(ctx context.Context) error {
	cfg, log, err := environment(ctx, h.name)
	if err != nil {
		return err
	}
	if err := h.open(ctx, cfg, log); err != nil {
		return err
	}
	h.opened.Do(func() {})
	defer h.spans.Close(context.WithoutCancel(ctx))
	return errors.Join(serve(ctx, cfg, log, h), h.function.close(context.WithoutCancel(ctx), cfg))
}

// Read reads a function's configuration from the environment.
func Read[C any](ctx context.Context) (C, error) {
	var cfg C
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return cfg, fmt.Errorf("configuration: %w", err)
	}
	return cfg, nil
}

func environment(ctx context.Context, target string) (Config, *slog.Logger, error) {
	cfg, err := Read[Config](ctx)
	if err != nil {
		return Config{}, nil, err
	}
	if cfg.Target != "" && cfg.Target != target {
		return Config{}, nil, fmt.Errorf("FUNCTION_TARGET is %q, but this program contains %q", cfg.Target, target)
	}
	cfg.Target = target
	level, err := cfg.level()
	if err != nil {
		return Config{}, nil, err
	}
	return cfg, reqctx.Logger(slog.New(slog.NewJSONHandler(printable{os.Stderr}, &slog.HandlerOptions{Level: level})).With("function", target)), nil
}

func (f *Function) close(ctx context.Context, cfg Config) (err error) {
	if f.Close != nil {
		ctx, cancel := context.WithTimeout(ctx, seconds(cfg.Drain))
		defer cancel()
		err = f.Close(ctx)
	}
	if f.Store != nil {
		err = errors.Join(err, f.Store.Close())
	}
	return err
}

func serve(ctx context.Context, cfg Config, log *slog.Logger, h *hosted) error {
	f := h.function
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	main, side, err := listenBoth(ctx, cfg)
	if err != nil {
		return err
	}
	servers := []*http.Server{start(main, cfg, log, withHealth(h), f, stop)}
	if side != nil {
		servers = append(servers, start(side, cfg, log, private(h.metrics.handler(), f.Private), &Function{}, stop))
	}
	log.Info("serving", "address", main.Addr().String(), "tls", f.TLS != nil)

	// Background ends after the last request.
	backCtx, endBackground := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := f.background(backCtx)
		if err != nil {
			stop(err)
		}
		ended <- err
	}()

	<-ctx.Done()
	log.Info("draining")
	err = shutdown(context.WithoutCancel(ctx), cfg, servers)
	endBackground()
	err = errors.Join(err, <-ended)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

func (f *Function) background(ctx context.Context) error {
	if f.Background == nil {
		<-ctx.Done()
		return nil
	}
	if err := f.Background(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("background work: %w", err)
	}
	return nil
}

// listenBoth listens on both ports before any request is served, so that a function that is ready
// serves its metrics.
func listenBoth(ctx context.Context, cfg Config) (main, side net.Listener, err error) {
	if main, err = listen(ctx, cfg.Host, cfg.Port); err != nil || cfg.MetricsPort == 0 {
		return main, nil, err
	}
	if side, err = listen(ctx, cfg.Host, cfg.MetricsPort); err != nil {
		return nil, nil, errors.Join(err, main.Close())
	}
	return main, side, nil
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

func start(l net.Listener, cfg Config, log *slog.Logger, h http.Handler, f *Function, stop context.CancelCauseFunc) *http.Server {
	srv := &http.Server{
		Handler:           h,
		TLSConfig:         f.TLS,
		ReadHeaderTimeout: seconds(cfg.Header),
		ReadTimeout:       seconds(cfg.Read),
		WriteTimeout:      seconds(cfg.Write),
		IdleTimeout:       seconds(cfg.Idle),
		MaxHeaderBytes:    cmp.Or(f.MaxHeader, 64<<10),
		ConnContext:       f.Connected,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		var err error
		if f.TLS != nil {
			err = srv.ServeTLS(l, "", "")
		} else {
			err = srv.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("serve: %w", err))
		}
	}()
	return srv
}

const sweepInterval = time.Second

func shutdown(ctx context.Context, cfg Config, servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(cfg.Drain))
	defer cancel()
	var err error
	for _, s := range servers {
		err = errors.Join(err, drain(ctx, s))
	}
	return err
}

// drain calls Shutdown repeatedly. A single call notifies only the current HTTP/2 connections and
// never returns if another one is in its handshake (https://go.dev/issue/81153).
func drain(ctx context.Context, s *http.Server) error {
	for {
		sweep, cancel := context.WithTimeout(ctx, sweepInterval)
		err := s.Shutdown(sweep)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func private(metrics, rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	if rest != nil {
		mux.Handle("/", rest)
	}
	return mux
}

func withHealth(h http.Handler) http.Handler {
	if own, ok := h.(interface{ HandlesHealth() bool }); ok && own.HandlesHealth() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHealth(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.WriteHeader(http.StatusOK)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func isHealth(path string) bool {
	return path == "/healthz" || path == "/_/health" || path == "/_/ready"
}
