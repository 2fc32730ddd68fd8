// Package funcmain is the process around a function: configuration, logging,
// the functions-framework contract, a server with timeouts, and a drain on
// SIGTERM.
//
// A function's package registers it with the functions framework by [HTTP] or
// [CloudEvent], so that the framework's own server, a buildpack or "gcloud functions
// deploy" host it as it is. That server has no time-outs and no shutdown, so the program
// in functions/NAME/cmd serves the same handler here, with $PORT, the function at "/" and
// $FUNCTION_TARGET checked. The checker and the stand-in, which live as long as their
// process, are no functions in that sense ([Serve]).
//
// GET /healthz answers 200 while the process serves, and so do /_/health and
// /_/ready, which OpenFaaS asks, unless the function has routes of its own there.
//
// # Metrics
//
// GET /metrics on $METRICS_PORT, a port of its own that no ingress leads to, serves
// Prometheus what every function measures, and what it has of its own:
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

	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/trace"
)

// Function is what a program serves.
type Function struct {
	Handler http.Handler // answers everything under "/"; of an event function [Events] of Receive
	Receive Receive      // takes events; of an event function alone
	TLS     *tls.Config  // optional; serves HTTP/2 and HTTP/1.1 over TLS

	// Collectors are the function's own metrics. Optional.
	Collectors []prometheus.Collector

	// Store has its calls counted, and is closed after Close. Optional.
	Store Store

	// Private answers on $METRICS_PORT what is not /metrics, for operators. Optional.
	Private http.Handler

	// Lean leaves requests to the handler alone, which then sees to their ids and
	// counts them itself: for what must not cost a microsecond.
	Lean bool

	// Spans is given what makes spans, if any are exported, before the first request:
	// for a handler that is Lean. Optional.
	Spans func(t *span.Tracer)

	// Connected is told of each new connection, as [http.Server.ConnContext]. Optional.
	Connected func(ctx context.Context, c net.Conn) context.Context

	// MaxHeader bounds a request's header, in bytes; 0 is 64 KiB.
	MaxHeader int

	// Background runs beside the server until its context ends; an error of it
	// ends the process. Optional.
	Background func(ctx context.Context) error

	// Close is called once after the last request and after Background. Optional.
	Close func(ctx context.Context) error
}

// Store is a store that tells of its calls; *store.Store implements it. lasting
// says that a call is a listener, which lasts as long as it is wanted.
type Store interface {
	Observe(called func(op, outcome string, took time.Duration, lasting bool))
	Close() error
}

// Build makes a function from its settings, which its environment holds. ctx ends with
// the process, which does not outlive a function that could not be made.
type Build[C any] func(ctx context.Context, cfg C, log *slog.Logger) (*Function, error)

// Main runs the function that a package has registered by [HTTP] or [CloudEvent] until
// SIGTERM or SIGINT, and exits 1 when that fails.
func Main(target string) {
	h := registered[target]
	if h == nil {
		exitOn(target, errors.New("no package of this program registers it"))
	}
	h.main()
}

// Serve runs what is no function that a framework could host, since it lives as long as
// its process does and has work of its own: as [Main].
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
	h.opened.Do(func() {}) // it is
	defer h.spans.Close(context.WithoutCancel(ctx))
	return errors.Join(serve(ctx, cfg, log, h), h.function.close(context.WithoutCancel(ctx), cfg))
}

// Read reads a function's own settings from its environment.
func Read[C any](ctx context.Context) (C, error) {
	var cfg C
	if err := envconfig.Process(ctx, &cfg); err != nil {
		return cfg, fmt.Errorf("configuration: %w", err)
	}
	return cfg, nil
}

// environment is what every function reads, and its log.
func environment(ctx context.Context, target string) (Config, *slog.Logger, error) {
	cfg, err := Read[Config](ctx)
	if err != nil {
		return Config{}, nil, err
	}
	if cfg.Target != "" && cfg.Target != target {
		return Config{}, nil, fmt.Errorf("FUNCTION_TARGET is %q, but this program holds %q", cfg.Target, target)
	}
	cfg.Target = target
	level, err := cfg.level()
	if err != nil {
		return Config{}, nil, err
	}
	return cfg, trace.Logger(slog.New(slog.NewJSONHandler(printable{os.Stderr}, &slog.HandlerOptions{Level: level})).With("function", target)), nil
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

// serve answers requests until ctx ends, then lets the open ones finish.
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

	// Background outlives the requests: it ends once the last one is answered.
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

// listenBoth takes the ports before the first request is answered, so that whoever
// finds the function ready finds its metrics too. side is nil without a port for them.
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

// sweepInterval is from one telling of a server to shut down to the next.
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

// drain shuts a server down, telling it again and again: each time tells the HTTP/2
// connections of that moment to go, and would wait for ever for one whose handshake
// was still under way (https://go.dev/issue/81153).
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

// private is what $METRICS_PORT serves.
func private(metrics, rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	if rest != nil {
		mux.Handle("/", rest)
	}
	return mux
}

// withHealth answers what platforms ask to see whether the process serves, unless h
// has routes of its own for that.
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

// isHealth knows the paths of Kubernetes' and Knative's probes, and of OpenFaaS'.
func isHealth(path string) bool {
	return path == "/healthz" || path == "/_/health" || path == "/_/ready"
}
