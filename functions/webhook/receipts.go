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
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
)

const (
	// queued is the capacity of the queue: the calls of four apps at their rate limit in one
	// minute.
	queued = 256

	// gatheredFor is the time that a shared receipt covers. rewritten is the shortest interval
	// between two writes of it.
	gatheredFor = time.Hour
	rewritten   = time.Minute

	keepTimeout = 5 * time.Second

	checkInterval = time.Second
)

// remember adds a call to the receipts. It neither blocks nor fails.
func (s *Service) remember(r *http.Request, ref app.Ref, answer hook.StoredResponse, result hook.Result, err error) {
	receipt := hook.Receipt{At: s.timestamp(), App: ref, Result: result, Count: 1, RequestID: reqctx.ID(r.Context())}
	receipt.Last = receipt.At
	if err != nil {
		receipt.Code = problem.From(err).Code
	}
	if result.Aggregated() {
		if _, ok := s.watched.Token(ref); !ok {
			receipt.App = app.Ref{} // counted, but never written
		}
		s.receipts.gather(receipt)
		return
	}
	receipt.Event, receipt.Delivery = hook.EventOf(r.Header), hook.DeliveryOf(r.Header)
	receipt.Revision, receipt.Build = answer.Revision, answer.Build
	receipt.Commit, receipt.Reason = answer.Commit, answer.Reason
	s.receipts.put(receipt.Bounded())
}

type receipts struct {
	store    Apps
	outcomes *prometheus.CounterVec
	log      *slog.Logger
	now      func() time.Time
	wake     chan struct{} // not empty while the queue is not empty

	mu       sync.Mutex
	queue    []hook.Receipt
	gathered map[shared]*sharedReceipt
}

type shared struct {
	app    app.Ref
	result hook.Result
}

type sharedReceipt struct {
	hook.Receipt

	written time.Time // zero if never
	dirty   bool      // changed since the last write
}

func (g sharedReceipt) due(now time.Time) bool {
	return g.dirty && (g.written.IsZero() || now.Sub(g.written) >= rewritten)
}

func (g sharedReceipt) over(now time.Time) bool { return now.Sub(g.At) >= gatheredFor }

func newReceipts(s Apps, log *slog.Logger, now func() time.Time) *receipts {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_receipts_total", Help: "Receipts of webhook calls by result of the write.",
	}, []string{"outcome"})
	for _, o := range []string{"kept", "lost"} {
		outcomes.WithLabelValues(o)
	}
	return &receipts{store: s, outcomes: outcomes, log: log, now: now, wake: make(chan struct{}, 1), gathered: map[shared]*sharedReceipt{}}
}

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
	default:
	}
}

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
		g = &sharedReceipt{Receipt: r}
		k.gathered[of] = g
	}
	g.Count++
	g.Last, g.RequestID, g.Code, g.dirty = r.Last, r.RequestID, r.Code, true
}

// due removes and returns the receipts to write now, or all if end is true.
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

func (k *receipts) run(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-k.wake:
		case <-tick.C:
		case <-ctx.Done():
			k.writeDue(context.WithoutCancel(ctx), true)
			return nil
		}
		k.writeDue(context.WithoutCancel(ctx), false) // finish the write even if ctx ends
	}
}

// writeDue writes the due receipts. If that fails, they are lost; a shared receipt is written again
// with its next call.
func (k *receipts) writeDue(ctx context.Context, end bool) {
	due := k.due(k.now(), end)
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	outcome := "kept"
	if err := k.store.KeepReceipts(ctx, due); err != nil {
		outcome = "lost"
		k.log.WarnContext(ctx, "write receipts failed", "receipts", len(due), "error", err)
	}
	k.outcomes.WithLabelValues(outcome).Add(float64(len(due)))
}
