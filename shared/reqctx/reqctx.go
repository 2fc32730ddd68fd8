// Package reqctx carries the request's ID, client address and actor in the context, for logs and
// audit records.
//
// The ID is the client's X-Request-Id if it has 1 to 64 of [0-9A-Za-z_-], otherwise a random ID.
// The response, log lines ([Logger]), audit records and calls to other functions contain it.
// Clients can reuse IDs, so an ID proves nothing.
//
// The client address comes from the console, trusted proxies or the connection
// ([Clients.Address]).
//
// A valid traceparent (W3C Trace Context) is passed on to other functions, and its trace ID is
// logged. If spans are exported (package span), the parent is the current span, and requests
// without a traceparent start a trace. Responses contain no traceparent, and tracestate is not
// passed on.
//
// The actor is known only after authentication: [Begin] reserves a place in the context, and
// [SetActor] fills it. Work without a request has the actor "system", unless [WithActor] sets another.
package reqctx

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/sluicegate/sluice/shared/apikey"
)

// Header is the name of the header with the request ID.
const Header = "X-Request-Id"

const maxID = 64

// Request describes a request before its authentication.
type Request struct {
	ID      string
	Address string // client address, e.g. "203.0.113.9", or ""
	Parent  string // valid traceparent, or ""
}

// Trace returns the trace ID, 32 hexadecimal digits, or "".
func (r Request) Trace() string {
	if r.Parent == "" {
		return ""
	}
	return r.Parent[len("00-") : len("00-")+32]
}

// Kind is the kind of an actor.
type Kind string

// The kinds of actors. Names with a colon cannot be usernames.
const (
	User      Kind = "user"
	Token     Kind = "token"     // a service token, e.g. "token:nightly"
	Webhook   Kind = "webhook"   // a client with an app's webhook token
	Program   Kind = "program"   // a scanner for leaked keys, e.g. "program:github"
	Build     Kind = "build"     // a finished build, e.g. "build 7"
	System    Kind = "system"    // Sluice, e.g. for the first admin
	Anonymous Kind = "anonymous" // an unauthenticated client
)

// Kinds returns all kinds of actors.
func Kinds() []Kind { return []Kind{User, Token, Webhook, Program, Build, System, Anonymous} }

// Actor is the person or program that makes a request or a change.
type Actor struct {
	Kind Kind
	Name string
}

type key struct{}

type trail struct {
	request Request
	actor   atomic.Pointer[Actor]
}

// Begin returns a context for a request with an anonymous actor.
func Begin(ctx context.Context, r Request) context.Context {
	t := &trail{request: r}
	t.actor.Store(&Actor{Kind: Anonymous})
	return context.WithValue(ctx, key{}, t)
}

// SetActor sets the actor of the context's request, if there is one.
func SetActor(ctx context.Context, a Actor) {
	if t := of(ctx); t != nil {
		t.actor.Store(&a)
	}
}

// WithActor returns a context with actor a and the request of ctx.
func WithActor(ctx context.Context, a Actor) context.Context {
	t := &trail{}
	if before := of(ctx); before != nil {
		t.request = before.request
	}
	t.actor.Store(&a)
	return context.WithValue(ctx, key{}, t)
}

// FromContext returns the request of a context, and false if there is none.
func FromContext(ctx context.Context) (r Request, ok bool) {
	t := of(ctx)
	if t == nil {
		return Request{}, false
	}
	return t.request, true
}

// ID returns the request ID of a context, or "".
func ID(ctx context.Context) string {
	r, _ := FromContext(ctx)
	return r.ID
}

// ActorFrom returns the actor of a context, or the system if there is none.
func ActorFrom(ctx context.Context) Actor {
	t := of(ctx)
	if t == nil {
		return Actor{Kind: System, Name: "system"}
	}
	return *t.actor.Load()
}

func of(ctx context.Context) *trail {
	t, _ := ctx.Value(key{}).(*trail)
	return t
}

// IDOf returns the valid ID in a header, or a new one.
func IDOf(h http.Header) string {
	if id := h.Get(Header); ValidID(id) {
		return id
	}
	return NewID()
}

// NewID returns a new ID: 26 of [A-Z2-7].
func NewID() string { return rand.Text() }

// ValidID reports whether s is a valid ID. IDs are logged, so they must not contain a full key.
func ValidID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return false
		}
	}
	return !apikey.HoldsSecret(s)
}

// ParentHeader is the name of the HTTP header and CloudEvents attribute with the trace.
const ParentHeader = "traceparent"

var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// ParentOf returns the traceparent of a header, or "" unless there is exactly one and it is valid.
func ParentOf(h http.Header) string {
	if lines := h.Values(ParentHeader); len(lines) == 1 {
		return ValidParent(lines[0])
	}
	return ""
}

// ValidParent converts a valid traceparent to version 00. It returns "" if s is invalid.
func ValidParent(s string) string {
	m := traceparent.FindStringSubmatch(s)
	if m == nil || m[1] == "ff" || m[1] == "00" && m[5] != "" || strings.Trim(m[2], "0") == "" || strings.Trim(m[3], "0") == "" {
		return ""
	}
	return "00-" + m[2] + "-" + m[3] + "-" + m[4]
}

// Logger returns a logger that adds request_id and trace_id from the context. Repeated calls have
// no effect.
func Logger(log *slog.Logger) *slog.Logger {
	if _, ok := log.Handler().(handler); ok {
		return log
	}
	return slog.New(handler{log.Handler()})
}

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := ID(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", id))
		if of, _ := FromContext(ctx); of.Parent != "" {
			r.AddAttrs(slog.String("trace_id", of.Trace()))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
