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
	// glance is how long checkers are asked where nobody wants to wait.
	glance = 250 * time.Millisecond

	// round is how long they are asked before the list of them is read again: one that was
	// asked may be gone, and its next life another one.
	round = checkers.AckTimeout + 500*time.Millisecond

	// nextRound is the least time from one reading of the list to the next.
	nextRound = 250 * time.Millisecond

	// waitsAtOnce is how many calls may wait at one time; further ones are answered with
	// what is known.
	waitsAtOnce = 64

	// maxAck is the largest size of a checker's response, in bytes.
	maxAck = 4096
)

// What came of a wait, in metrics.
const (
	everywhere = "everywhere"
	unknown    = "unknown"
)

// getChange is asked about a change that was made before.
func (s *Service) getChange(ctx context.Context, in httpapi.Scope, _ api.None) (wire.InForce, checkers.Change, error) {
	c, err := s.store.Change(ctx, in.Project.Name, in.Param("change_id"))
	return wire.InForce{}, c, err
}

// checkerSet calls checkers: to find out whether a change is in force, and why a request was denied.
type checkerSet struct {
	client *checkers.Client
	store  Store
	log    *slog.Logger
	now    func() time.Time // the monotonic clock tells how long something took
	slots  chan struct{}    // holds one for each call that waits
	asks   chan struct{}    // holds one for each call that asks about a refused request
	ending <-chan struct{}  // closed when the process is told to stop
	took   *prometheus.HistogramVec
}

func newCheckers(client *checkers.Client, st Store, log *slog.Logger, ending <-chan struct{}) *checkerSet {
	c := &checkerSet{client: client, store: st, log: log, now: time.Now, slots: make(chan struct{}, waitsAtOnce), asks: make(chan struct{}, explainsAtOnce), ending: ending}
	c.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_change_in_force_seconds",
		Help:    "How long calls waited until their change was in force at every checker (result everywhere), or until they gave up (unknown).",
		Buckets: prometheus.ExponentialBuckets(0.008, 2, 13),
	}, []string{"result"})
	for _, result := range []string{everywhere, unknown} {
		c.took.WithLabelValues(result) // both are there from the start
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
	ctx, cancel := context.WithTimeout(ctx, max(wait, glance))
	defer cancel()
	if wait > 0 {
		go c.endWith(ctx, cancel)
	}
	w := &waiting{checkerSet: c, change: change, begun: begun, after: map[string]time.Duration{}}
	for {
		next := time.NewTimer(nextRound)
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
			return c.measured(w.answer(wait > 0), wait > 0, c.now().Sub(begun))
		}
	}
}

// mayWait takes a slot, if there is one; a process that is told to stop has none.
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

// endWith ends a wait when the process is told to stop: a wait may take longer than the
// drain, which would cut its answer.
func (c *checkerSet) endWith(ctx context.Context, end context.CancelFunc) {
	select {
	case <-c.ending:
		end()
	case <-ctx.Done():
	}
}

// measured notes how long a call has waited, if it has.
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

// waiting is a call that waits for a change.
type waiting struct {
	*checkerSet

	change checkers.Change
	begun  time.Time

	mu          sync.Mutex // guards what follows
	read        bool       // both lists have been read, after the change
	keys, plans checkers.List
	after       map[string]time.Duration // how long a replica took, by its name
}

// round reads who must follow, and asks those who have not said yet that they do.
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
	ctx, cancel := context.WithTimeout(ctx, round)
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
				w.log.WarnContext(ctx, "ask checker failed", "replica", m.Replica, "error", err)
			}
			if w.everywhere() {
				cancel() // nobody else is waited for
			}
		})
	}
	all.Wait()
	return nil
}

// errEarly reports a list of checkers that was read before the change was committed.
var errEarly = errors.New("the list was read before the change")

// members lists the checkers that must apply what was committed at c: none if c is zero.
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

// ask has a member say what it has applied.
func (w *waiting) ask(ctx context.Context, m checkers.Member) error {
	u := url.URL{Scheme: "https", Host: m.Address, Path: checkers.AckPath, RawQuery: w.change.Query()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	var ack checkers.Ack
	if err := w.client.Call(r, maxAck, &ack); errors.Is(err, checkers.ErrUnreachable) {
		return nil // its canary says what it has applied
	} else if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.plans = w.keys.WithAck(ack, ack.Keys), w.plans.WithAck(ack, ack.Plans)
	return nil
}

// states are the replicas' as far as it is known. The caller holds mu.
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

// answer says what is known.
func (w *waiting) answer(waited bool) wire.InForce {
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
			denies := r.DeniesFrom.UTC().Truncate(time.Microsecond).Add(time.Microsecond) // never too early
			shown.DeniesFrom = &denies
		}
		out.Replicas = append(out.Replicas, shown)
	}
	return out
}
