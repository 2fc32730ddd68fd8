package funcmain

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
)

// Receive handles an event; see [Events].
type Receive func(ctx context.Context, e cloudevents.Event) error

//nolint:gochecknoglobals // filled by init functions, like the framework's registry
var registered = map[string]*hosted{}

// HTTP registers a function that handles HTTP requests with the functions framework. Call it in
// the init function of the function's package.
func HTTP[C any](name string, build Build[C]) {
	registered[name] = host(name, build)
	functions.HTTP(name, registered[name].ServeHTTP)
}

// CloudEvent is like [HTTP] for a function with Receive instead of Handler.
func CloudEvent[C any](name string, build Build[C]) {
	registered[name] = host(name, build)
	functions.CloudEvent(name, registered[name].receive)
}

// hosted is a registered function. It is opened by this package, or by the first request in a
// framework's process.
type hosted struct {
	name  string
	build func(ctx context.Context, log *slog.Logger) (*Function, error)

	function *Function
	metrics  *metrics
	handler  http.Handler
	spans    *span.Tracer
	opened   sync.Once // only in a framework's process
}

func host[C any](name string, build Build[C]) *hosted {
	return &hosted{name: name, build: func(ctx context.Context, log *slog.Logger) (*Function, error) {
		cfg, err := Read[C](ctx)
		if err != nil {
			return nil, err
		}
		return build(ctx, cfg, log)
	}}
}

func (h *hosted) open(ctx context.Context, cfg Config, log *slog.Logger) error {
	spans, err := span.Open(ctx, cfg.Settings, h.name, log)
	if err != nil {
		return err
	}
	console, err := cfg.Console.Read()
	if err != nil {
		return err
	}
	f, err := h.build(ctx, log)
	if err != nil {
		return err
	}
	if f.Receive != nil {
		f.Handler = Events(log, f.Receive)
	}
	if f.Spans != nil && spans.On() {
		f.Spans(spans)
	}
	h.function, h.spans, h.metrics, h.handler = f, spans, newMetrics(h.name, f, spans), f.Handler
	if !f.Lean {
		clients := reqctx.NewClients(cfg.Proxies, console)
		clients.Follow(ctx, log)
		now := time.Now
		h.handler = &observer{next: f.Handler, metrics: h.metrics, spans: spans, clients: clients, log: log, now: now}
	}
	return nil
}

// inFramework opens the function in a framework's process. If that or the background work fails,
// the process exits, so that the platform restarts it.
func (h *hosted) inFramework() {
	h.opened.Do(func() {
		ctx := context.Background()
		cfg, log, err := environment(ctx, h.name)
		if err == nil {
			err = h.open(ctx, cfg, log)
		}
		exitOn(h.name, err)
		go func() { exitOn(h.name, h.function.background(ctx)) }()
	})
}

func (h *hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.inFramework() //nolint:contextcheck // the function outlives the request
	h.handler.ServeHTTP(w, r)
}

func (h *hosted) receive(ctx context.Context, e cloudevents.Event) error {
	h.inFramework() //nolint:contextcheck // the function outlives the event
	ctx, request := h.spans.Server(ctx, parentOf(e))
	err := events(h.function.Receive)(ctx, e)
	answer := http.StatusOK
	if err != nil {
		answer = http.StatusInternalServerError
	}
	request.EndHTTP(EventRoute, http.MethodPost, answer, "")
	return err
}

func (h *hosted) HandlesHealth() bool {
	own, ok := h.handler.(interface{ HandlesHealth() bool })
	return ok && own.HandlesHealth()
}
