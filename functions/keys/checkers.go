package keys

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	shortTimeout = 250 * time.Millisecond // for calls that do not wait

	// After roundTimeout, the list of checkers is read again, since some may have been replaced.
	roundTimeout     = checkers.AckTimeout + 500*time.Millisecond
	minRoundInterval = 250 * time.Millisecond

	maxWaits = 64   // concurrent waits; further calls do not wait
	maxAck   = 4096 // bytes in an acknowledgment
)

// The results of a wait, in metrics.
const (
	everywhere = "everywhere"
	unknown    = "unknown"
)

func (s *Service) getChange(ctx context.Context, in httpapi.Scope, _ api.None) (wire.InForce, checkers.Change, error) {
	c, err := s.store.Change(ctx, in.Project.Name, in.Param("change_id"))
	return wire.InForce{}, c, err
}

type checkerSet struct {
	client *checkers.Client
	store  Store
	log    *slog.Logger
	now    func() time.Time
	slots  chan struct{}   // semaphore of waits
	asks   chan struct{}   // semaphore of explanations
	ending <-chan struct{} // closed at shutdown
	took   *prometheus.HistogramVec
}

func newCheckers(client *checkers.Client, st Store, log *slog.Logger, ending <-chan struct{}) *checkerSet {
	c := &checkerSet{client: client, store: st, log: log, now: time.Now, slots: make(chan struct{}, maxWaits), asks: make(chan struct{}, maxExplains), ending: ending}
	c.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_change_in_force_seconds",
		Help:    "Wait of calls until their change was in force at every checker (result everywhere) or until the wait ended (unknown).",
		Buckets: prometheus.ExponentialBuckets(0.008, 2, 13),
	}, []string{"result"})
	for _, result := range []string{everywhere, unknown} {
		c.took.WithLabelValues(result) // exported from the start
	}
	return c
}

// InForce implements [httpapi.Checkers].
func (c *checkerSet) InForce(ctx context.Context, change checkers.Change, wait time.Duration) wire.InForce {
	if !c.mayWait() {
		wait = 0
	} else {
		defer func() { <-c.slots }()
	}
	begun := c.now()
	ctx, cancel := context.WithTimeout(ctx, max(wait, shortTimeout))
	defer cancel()
	if wait > 0 {
		go c.endWith(ctx, cancel)
	}
	w := &waiting{checkerSet: c, change: change, begun: begun, after: map[string]time.Duration{}}
	for {
		next := time.NewTimer(minRoundInterval)
		err := w.round(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "list checkers failed", "error", err)
		}
		over := err == nil && w.everywhere()
		if !over {
			select {
			case <-ctx.Done():
				over = true
			case <-next.C:
			}
		}
		next.Stop()
		if over {
			return c.measured(w.result(wait > 0), wait > 0, c.now().Sub(begun))
		}
	}
}

func (c *checkerSet) mayWait() bool {
	select {
	case <-c.ending:
		return false
	default:
	}
	select {
	case c.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// endWith ends a wait at shutdown: a wait can take longer than the drain, which would cut off its
// response.
func (c *checkerSet) endWith(ctx context.Context, end context.CancelFunc) {
	select {
	case <-c.ending:
		end()
	case <-ctx.Done():
	}
}

func (c *checkerSet) measured(f wire.InForce, waited bool, took time.Duration) wire.InForce {
	result := unknown
	if f.Everywhere {
		result = everywhere
	}
	if waited {
		c.took.WithLabelValues(result).Observe(took.Seconds())
	}
	return f
}

type waiting struct {
	*checkerSet

	change checkers.Change
	begun  time.Time

	mu          sync.Mutex // guards the following fields
	read        bool       // both lists have been read after the change
	keys, plans checkers.List
	after       map[string]time.Duration // time until the confirmation, by replica
}

func (w *waiting) round(ctx context.Context) error {
	keys, err := w.members(ctx, store.CanaryKeys, w.change.Keys)
	if err != nil {
		return err
	}
	plans, err := w.members(ctx, store.CanaryPlans, w.change.Plans)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.keys, w.plans, w.read = keys, plans, true
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	silent := map[string]checkers.Member{} // by address
	for _, m := range slices.Concat(keys.Members, plans.Members) {
		if m.Address != "" && w.silent(m.Replica) {
			silent[m.Address] = m
		}
	}
	var all sync.WaitGroup
	for _, m := range silent {
		all.Go(func() {
			if err := w.ask(ctx, m); err != nil && ctx.Err() == nil {
				w.log.WarnContext(ctx, "query checker failed", "replica", m.Replica, "error", err)
			}
			if w.everywhere() {
				cancel() // the others need not confirm
			}
		})
	}
	all.Wait()
	return nil
}

var errEarly = errors.New("list of checkers is older than the change")

// members returns the checkers that must apply a commit at c: none if c is zero.
func (w *waiting) members(ctx context.Context, t store.CanaryType, c time.Time) (checkers.List, error) {
	if c.IsZero() {
		return checkers.List{}, nil
	}
	list, err := w.store.Members(ctx, t)
	if err == nil && list.Read.Before(c) {
		err = errEarly
	}
	return list, err
}

func (w *waiting) ask(ctx context.Context, m checkers.Member) error {
	u := url.URL{Scheme: "https", Host: m.Address, Path: checkers.AckPath, RawQuery: w.change.Query()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	var ack checkers.Ack
	if err := w.client.Call(r, maxAck, &ack); errors.Is(err, checkers.ErrUnreachable) {
		return nil // its canaries contain its applied times
	} else if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.plans = w.keys.WithAck(ack, ack.Keys), w.plans.WithAck(ack, ack.Plans)
	return nil
}

// states returns the known states of all replicas. The caller holds mu.
func (w *waiting) states() []checkers.Replica {
	all := checkers.Merge(w.keys.Of(w.change.Keys), w.plans.Of(w.change.Plans))
	for _, r := range all {
		if _, known := w.after[r.Name]; !known && r.State == checkers.Applied {
			w.after[r.Name] = w.now().Sub(w.begun)
		}
	}
	return all
}

func (w *waiting) silent(replica string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.states(), func(r checkers.Replica) bool { return r.Name == replica && r.State == checkers.Silent })
}

func (w *waiting) everywhere() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read && checkers.Complete(w.states())
}

func (w *waiting) result(waited bool) wire.InForce {
	w.mu.Lock()
	defer w.mu.Unlock()
	states := w.states()
	out := wire.InForce{Change: w.change.ID, Everywhere: w.read && checkers.Complete(states), Replicas: []wire.ReplicaInForce{}}
	if now := w.now().UTC().Truncate(time.Microsecond); out.Everywhere {
		out.At = &now
	}
	for _, r := range states {
		shown := wire.ReplicaInForce{Replica: r.Name, State: string(r.State)}
		if after, known := w.after[r.Name]; known && waited && r.State == checkers.Applied {
			ms := after.Milliseconds()
			shown.AfterMS = &ms
		}
		if r.State == checkers.Silent {
			denies := r.DeniesFrom.UTC().Truncate(time.Microsecond).Add(time.Microsecond) // rounded up
			shown.DeniesFrom = &denies
		}
		out.Replicas = append(out.Replicas, shown)
	}
	return out
}
