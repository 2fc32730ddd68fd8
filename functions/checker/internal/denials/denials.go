// Package denials remembers why requests were denied, so that an operator who is
// given the X-Request-Id of a denial finds the true reason, which the client must
// not learn (promise O1).
//
// The last [Kept] denials of the process stay in memory, for GET /denials on the
// private port and for those who look after the app (package explain), and denials are logged, but no more than so many lines a second: a
// flood costs its share of memory and of the disk and no more. What was not logged
// is counted, and the next line says how many. Nothing here waits on the request's
// path: noting a denial is a store into a ring and a send that gives up when there
// is no room.
//
// A key is named by its public prefix, and never by anything else of it.
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
	// Kept is how many denials can be asked for.
	Kept = 4096

	// queued is how many denials can wait to be logged: a burst that is logged whole.
	queued = 128

	// Shown bounds one answer to GET /denials.
	Shown = 500
)

// Denial is a request that was denied.
type Denial struct {
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id"` // as in the answer's X-Request-Id
	Code      string    `json:"code"`       // what the client was told
	Reason    string    `json:"reason"`     // the true one, e.g. "expired"
	Namespace string    `json:"namespace"`  // of the app; "" when the address named none
	App       string    `json:"app"`
	KeyPrefix string    `json:"key_prefix"` // "" when no key of a key's shape came
	Method    string    `json:"method"`     // of the client's request
	Address   string    `json:"client_address"`
}

// Log holds the denials of a process.
type Log struct {
	log   *slog.Logger
	every time.Duration // from one log line to the next, once the burst is used up

	next    atomic.Uint64 // the ring's
	ring    [Kept]entry
	queue   chan Denial
	skipped atomic.Uint64 // not logged, and not said so yet
}

// entry has a lock of its own: two denials meet there only when one of them has come
// around the whole ring.
type entry struct {
	mu     sync.Mutex
	n      uint64 // the denial's number, from 1
	denial Denial
}

// New makes a log that writes up to perSecond denials a second.
func New(perSecond int, log *slog.Logger) *Log {
	return &Log{log: log, every: time.Second / time.Duration(max(perSecond, 1)), queue: make(chan Denial, queued)}
}

// Note keeps a denial.
func (l *Log) Note(d Denial) {
	n := l.next.Add(1)
	e := &l.ring[n%Kept]
	e.mu.Lock()
	if n > e.n { // one that came a whole round later may have been quicker
		e.n, e.denial = n, d
	}
	e.mu.Unlock()
	select {
	case l.queue <- d:
	default:
		l.skipped.Add(1)
	}
}

// Find gives kept denials, the newest first and limit at most: those of a request,
// or all with "". A client can use one id again, so there may be several.
func (l *Log) Find(requestID string, limit int) []Denial {
	return l.find(limit, func(d *Denial) bool { return requestID == "" || d.RequestID == requestID })
}

// FindIn is Find for one request, in the namespaces that sees names.
func (l *Log) FindIn(requestID string, sees func(namespace string) bool, limit int) []Denial {
	return l.find(limit, func(d *Denial) bool { return d.RequestID == requestID && sees(d.Namespace) })
}

func (l *Log) find(limit int, wanted func(*Denial) bool) []Denial {
	found := []Denial{}
	last := l.next.Load()
	for n := last; n > 0 && last-n < Kept && len(found) < limit; n-- {
		e := &l.ring[n%Kept]
		e.mu.Lock()
		d, there := e.denial, e.n == n
		e.mu.Unlock()
		if there && wanted(&d) {
			found = append(found, d)
		}
	}
	return found
}

// Run logs until ctx ends.
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

// list is the answer to GET /denials.
type list struct {
	Items []Denial `json:"items"` // newest first
}

// ServeHTTP answers GET /denials?request_id=&limit=. It is for the private port: it
// tells what clients must not know.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := Shown
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > Shown {
			httpapi.Fail(w, problem.New(problem.InvalidParameter, "limit is 1 to %d.", Shown))
			return
		}
		limit = n
	}
	if err := httpapi.JSON(w, http.StatusOK, list{Items: l.Find(q.Get("request_id"), limit)}); err != nil { // strings and times always encode
		httpapi.Fail(w, problem.Of(problem.Internal))
	}
}
