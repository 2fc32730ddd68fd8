package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// queued bounds the receipts that wait to be written: those of four apps that use up
	// their limit, if the store takes a minute.
	queued = 256

	// gatheredFor is for how long calls share a receipt, and rewritten how often it is
	// written meanwhile, at most.
	gatheredFor = time.Hour
	rewritten   = time.Minute

	// keepTimeout bounds one writing.
	keepTimeout = 5 * time.Second

	// look is from one look for receipts that are due to the next.
	look = time.Second
)

// remember puts a call into the receipts. It neither waits nor fails.
func (s *Service) remember(r *http.Request, ref app.Ref, answer hook.Answer, result hook.Result, err error) {
	receipt := hook.Receipt{At: s.moment(), App: ref, Result: result, Count: 1, RequestID: trace.ID(r.Context())}
	receipt.Last = receipt.At
	if err != nil {
		receipt.Code = problem.From(err).Code
	}
	if result.Gathers() {
		if _, ok := s.watched.Token(ref); !ok {
			receipt.App = app.Ref{} // nobody's: counted as any other, and never written
		}
		s.receipts.gather(receipt)
		return
	}
	receipt.Event, receipt.Delivery = hook.EventOf(r.Header), hook.DeliveryOf(r.Header)
	receipt.Revision, receipt.Build = answer.Revision, answer.Build
	receipt.Commit, receipt.Reason = answer.Commit, answer.Reason
	s.receipts.put(receipt.Bounded()) // bounded before it waits
}

// receipts are those that are still to be written; see the package's documentation.
type receipts struct {
	store    Apps
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	now      func() time.Time
	wake     chan struct{} // holds one when there is something in the queue

	mu       sync.Mutex
	queue    []hook.Receipt
	gathered map[shared]*gathering
}

// shared is which calls share a receipt.
type shared struct {
	app    app.Ref
	result hook.Result
}

// gathering is a receipt that calls share.
type gathering struct {
	hook.Receipt

	written time.Time // zero before the first time
	dirty   bool      // calls have come since
}

// due tells whether it is to be written at a time.
func (g gathering) due(now time.Time) bool {
	return g.dirty && (g.written.IsZero() || now.Sub(g.written) >= rewritten)
}

// over tells whether a call at a time has another receipt.
func (g gathering) over(now time.Time) bool { return now.Sub(g.At) >= gatheredFor }

func newReceipts(s Apps, log *slog.Logger, now func() time.Time) *receipts {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_receipts_total", Help: "Receipts of webhooks' calls, by whether they were kept.",
	}, []string{"outcome"})
	for _, o := range []string{"kept", "lost"} {
		outcomes.WithLabelValues(o)
	}
	return &receipts{store: s, outcomes: outcomes, log: log, now: now, wake: make(chan struct{}, 1), gathered: map[shared]*gathering{}}
}

// put puts a receipt into the queue. Without room there it is lost.
func (k *receipts) put(r hook.Receipt) {
	r.ID = store.ReceiptID(r.At)
	k.mu.Lock()
	full := len(k.queue) >= queued
	if !full {
		k.queue = append(k.queue, r)
	}
	k.mu.Unlock()
	if full {
		k.outcomes.WithLabelValues("lost").Inc()
		return
	}
	select {
	case k.wake <- struct{}{}:
	default: // it is awake
	}
}

// gather counts a call on the receipt that it shares.
func (k *receipts) gather(r hook.Receipt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := shared{r.App, r.Result}
	g := k.gathered[of]
	if g == nil || g.over(r.At) {
		if g != nil && g.dirty && of.app != (app.Ref{}) && len(k.queue) < queued {
			k.queue = append(k.queue, g.Receipt)
		}
		r.ID, r.Count = store.ReceiptID(r.At), 0
		g = &gathering{Receipt: r}
		k.gathered[of] = g
	}
	g.Count++
	g.Last, g.RequestID, g.Code, g.dirty = r.Last, r.RequestID, r.Code, true
}

// due takes what is to be written at a time; at the end that is all there is.
func (k *receipts) due(now time.Time, end bool) []hook.Receipt {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.queue
	k.queue = nil
	for of, g := range k.gathered {
		if of.app != (app.Ref{}) && (g.due(now) || end && g.dirty) {
			g.written, g.dirty = now, false
			all = append(all, g.Receipt)
		}
		if g.over(now) && !g.dirty {
			delete(k.gathered, of)
		}
	}
	return all
}

// run writes receipts as they come until ctx ends, and then the last.
func (k *receipts) run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-k.wake:
		case <-tick.C:
		case <-ctx.Done():
			k.keep(context.WithoutCancel(ctx), true)
			return nil
		}
		k.keep(context.WithoutCancel(ctx), false) // what has been taken is written
	}
}

// keep writes what is due. What cannot be written is lost; a receipt that calls share is
// written again with the next of them.
func (k *receipts) keep(ctx context.Context, end bool) {
	due := k.due(k.now(), end)
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	outcome := "kept"
	if err := k.store.KeepReceipts(ctx, due); err != nil {
		outcome = "lost"
		k.log.WarnContext(ctx, "keep receipts failed", "receipts", len(due), "error", err)
	}
	k.outcomes.WithLabelValues(outcome).Add(float64(len(due)))
}
