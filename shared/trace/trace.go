// Package trace is what is known about the request that a piece of code works for:
// its id, the address that it comes from, and who makes it. All three travel in the
// context, so that a log line or an audit record far below the handler can name them
// without every function in between taking them along.
//
// # The id
//
// A client's X-Request-Id is taken over when it is plain enough to be searched for in
// a log (1 to 64 of [0-9A-Za-z_-]); otherwise the request gets one of 130 random bits.
// It stands in the answer's X-Request-Id, in every log line of the request
// ([Logger]), in the audit records of what the request changes, and it goes on with
// what the request asks of other functions. A client can give two requests the same
// id: it is a thread to follow, and proves nothing.
//
// # The address
//
// A client's address comes from X-Forwarded-For as far as trusted proxies have written it,
// and otherwise from the connection ([Clients.Address]). Audit records, and limits by address
// ([Network]), use that address only. The console's calls come from its own pods, so it names
// its client in a header that it signs with a secret of Sluice's functions ([Vouch]).
//
// # Traces of others
//
// A valid traceparent (W3C Trace Context) is taken over: its trace id stands in every log
// line beside the request's, and it goes on with what the request asks of other functions,
// over HTTP and in events. Where spans are exported (package span) the parent that goes on is
// the span that causes it, and a request without a valid one begins a trace; elsewhere it goes
// on as it came, and none is made. Answers do not carry it, and tracestate, which is others'
// text, ends here. Checkers ask nobody anything for a request.
//
// # Who
//
// The caller is known only once the request has been authenticated, somewhere below
// the place where the context was made. So [Begin] puts a place for it into the
// context, and [Identify] fills it. Work without a request, such as a periodic pass,
// is the system's own, unless [As] says on whose behalf it is done.
package trace

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

// Header carries the id from client to function, from function to function, and back.
const Header = "X-Request-Id"

// maxID bounds an id that is taken over, in bytes.
const maxID = 64

// Request is what is known of a request before anybody has looked into it.
type Request struct {
	ID      string // e.g. "7Q2ZL0…", see the package's documentation
	Address string // of the client, e.g. "203.0.113.9"; "" when it is not known
	Parent  string // its traceparent; "" without a valid one
}

// Trace is the id of the trace that the request is part of, 32 hexadecimal digits, or "".
func (r Request) Trace() string {
	if r.Parent == "" {
		return ""
	}
	return r.Parent[len("00-") : len("00-")+32]
}

// Kind says what an actor is.
type Kind string

// The kinds of actors.
const (
	User      Kind = "user"      // somebody with a session; the name is the username
	Token     Kind = "token"     // a service token; the name is e.g. "token:nightly", which no user can have
	Webhook   Kind = "webhook"   // who knows an app's webhook token, and no person
	Program   Kind = "program"   // one that looks for leaked keys; the name is e.g. "program:github", which no user can have
	Build     Kind = "build"     // a build that has ended; the name is e.g. "build 7"
	System    Kind = "system"    // Sluice itself, such as the first admin at start
	Anonymous Kind = "anonymous" // a request that has not been authenticated
)

// Kinds lists all kinds of actors.
func Kinds() []Kind { return []Kind{User, Token, Webhook, Program, Build, System, Anonymous} }

// Actor is who does something.
type Actor struct {
	Kind Kind
	Name string
}

type key struct{}

// trail is what the context holds.
type trail struct {
	request Request
	actor   atomic.Pointer[Actor]
}

// Begin gives the context of a request, made by nobody that is known yet.
func Begin(ctx context.Context, r Request) context.Context {
	t := &trail{request: r}
	t.actor.Store(&Actor{Kind: Anonymous})
	return context.WithValue(ctx, key{}, t)
}

// Identify says who makes the request of a context. Outside of one it does nothing.
func Identify(ctx context.Context, a Actor) {
	if t := of(ctx); t != nil {
		t.actor.Store(&a)
	}
}

// As gives a context in which an actor works, in the request of ctx if there is one.
func As(ctx context.Context, a Actor) context.Context {
	t := &trail{}
	if before := of(ctx); before != nil {
		t.request = before.request
	}
	t.actor.Store(&a)
	return context.WithValue(ctx, key{}, t)
}

// Of gives the request of a context; ok is false where there is none.
func Of(ctx context.Context) (r Request, ok bool) {
	t := of(ctx)
	if t == nil {
		return Request{}, false
	}
	return t.request, true
}

// ID gives the id of a context's request, or "".
func ID(ctx context.Context) string {
	r, _ := Of(ctx)
	return r.ID
}

// Who says who works in a context: the system where there is no request.
func Who(ctx context.Context) Actor {
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

// IDOf takes over the id of a request's header, or makes one.
func IDOf(h http.Header) string {
	if id := h.Get(Header); ValidID(id) {
		return id
	}
	return NewID()
}

// NewID makes an id: 26 of [A-Z2-7].
func NewID() string { return rand.Text() }

// ValidID reports whether s can be an id. A full key cannot: ids are logged.
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

// ParentHeader carries a trace of others from function to function. It is the name of the
// CloudEvents attribute for the same, too.
const ParentHeader = "traceparent"

// traceparent is one of any version, as far as all of them begin.
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// ParentOf takes over the traceparent of a request's header: "" unless there is one, and it
// is valid.
func ParentOf(h http.Header) string {
	if lines := h.Values(ParentHeader); len(lines) == 1 {
		return ValidParent(lines[0])
	}
	return ""
}

// ValidParent gives a traceparent as it goes on, in the version that is known here (00), or
// "" if it is not valid. Of a later version all is left out that is not known.
func ValidParent(s string) string {
	m := traceparent.FindStringSubmatch(s)
	if m == nil || m[1] == "ff" || m[1] == "00" && m[5] != "" || strings.Trim(m[2], "0") == "" || strings.Trim(m[3], "0") == "" {
		return ""
	}
	return "00-" + m[2] + "-" + m[3] + "-" + m[4]
}

// Logger gives a logger that adds request_id to each line whose context has one, and
// trace_id where the request is part of a trace.
// Applied twice it adds it once.
func Logger(log *slog.Logger) *slog.Logger {
	if _, ok := log.Handler().(handler); ok {
		return log
	}
	return slog.New(handler{log.Handler()})
}

type handler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := ID(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", id))
		if of, _ := Of(ctx); of.Parent != "" {
			r.AddAttrs(slog.String("trace_id", of.Trace()))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
