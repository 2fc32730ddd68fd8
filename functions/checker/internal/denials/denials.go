// Package denials stores the reasons for denials. Operators and the developers of an app find a
// reason by the X-Request-Id of the response (promise O1); the client must not learn it. The ID
// is the client's own if it is valid (package reqctx), and otherwise random.
//
// The last [Capacity] denials of the process stay in memory. GET /denials on the private port lists
// them. POST /denials returns those of an app to the management API (package checkers). The log
// has a limited number of lines per second; each line contains the number of denials omitted
// before it.
//
// Recording a denial does not wait for the log, and locks only one entry of the ring. Of the key,
// a denial contains only the public prefix.
package denials

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// Capacity is the number of stored denials.
	Capacity = 4096

	// queueSize is the size of a burst that is logged completely.
	queueSize = 128

	// Shown is the maximum number of denials in a response to GET /denials.
	Shown = 500
)

// Denial is a denied request.
type Denial struct {
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id"`
	Code      string    `json:"code"`
	Reason    string    `json:"reason"`
	Namespace string    `json:"namespace"`
	App       string    `json:"app"`
	KeyPrefix string    `json:"key_prefix"` // "" if no key is well-formed
	Method    string    `json:"method"`
	Address   string    `json:"client_address"`
}

// Log stores and logs the denials of a process.
type Log struct {
	log   *slog.Logger
	every time.Duration

	next    atomic.Uint64
	ring    [Capacity]entry
	queue   chan Denial
	skipped atomic.Uint64 // not yet reported as omitted
}

// entry is an entry of the ring. Two goroutines use it at once only if one is a whole round behind.
type entry struct {
	mu     sync.Mutex
	n      uint64
	denial Denial
}

// New returns a log that writes up to perSecond denials per second.
func New(perSecond int, log *slog.Logger) *Log {
	return &Log{log: log, every: time.Second / time.Duration(max(perSecond, 1)), queue: make(chan Denial, queueSize)}
}

// Record records a denial.
func (l *Log) Record(d Denial) {
	n := l.next.Add(1)
	e := &l.ring[n%Capacity]
	e.mu.Lock()
	if n > e.n { // a denial of the next round may have been faster
		e.n, e.denial = n, d
	}
	e.mu.Unlock()
	select {
	case l.queue <- d:
	default:
		l.skipped.Add(1)
	}
}

// Find returns the last denials of a request, or of all requests if requestID is "", newest first.
// Clients may reuse an ID.
func (l *Log) Find(requestID string, limit int) []Denial {
	return l.find(limit, func(d *Denial) bool { return requestID == "" || d.RequestID == requestID })
}

// FindIn returns a request's denials in the namespaces for which sees returns true.
func (l *Log) FindIn(requestID string, sees func(namespace string) bool, limit int) []Denial {
	return l.find(limit, func(d *Denial) bool { return d.RequestID == requestID && sees(d.Namespace) })
}

func (l *Log) find(limit int, wanted func(*Denial) bool) []Denial {
	found := []Denial{}
	last := l.next.Load()
	for n := last; n > 0 && last-n < Capacity && len(found) < limit; n-- {
		e := &l.ring[n%Capacity]
		e.mu.Lock()
		d, there := e.denial, e.n == n
		e.mu.Unlock()
		if there && wanted(&d) {
			found = append(found, d)
		}
	}
	return found
}

// Run writes the log until ctx ends.
func (l *Log) Run(ctx context.Context) {
	pause := time.NewTicker(l.every)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-l.queue:
			l.write(ctx, d)
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (l *Log) write(ctx context.Context, d Denial) {
	attrs := []slog.Attr{
		slog.String("request_id", d.RequestID), slog.String("code", d.Code), slog.String("reason", d.Reason),
		slog.String("namespace", d.Namespace), slog.String("app", d.App), slog.String("key_prefix", d.KeyPrefix),
		slog.String("method", d.Method), slog.String("client_address", d.Address), slog.Time("denied_at", d.At),
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Uint64("not_logged", n))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "denied", attrs...)
}

type list struct {
	Items []Denial `json:"items"`
}

// ServeHTTP serves GET /denials?request_id=&limit= on the private port.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := Shown
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > Shown {
			httpapi.WriteProblem(w, problem.New(problem.InvalidParameter, "limit must be between 1 and %d.", Shown))
			return
		}
		limit = n
	}
	if err := httpapi.WriteJSON(w, http.StatusOK, list{Items: l.Find(q.Get("request_id"), limit)}); err != nil {
		httpapi.WriteProblem(w, problem.FromCode(problem.Internal))
	}
}
