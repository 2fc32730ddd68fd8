package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

// ErrBusy says that a run of this process is under way already.
var ErrBusy = errors.New("a run is under way")

// Result tells what a run did.
type Result struct {
	Days     int // merged or settled
	Settled  int // of them
	Counters int // documents read
	Rollups  int // documents compared, and written where they differed
	Deleted  int // counters
	Pruned   int // rollups
	Canaries int // deleted
	Leases   int // deleted
	Keys     int // deleted, long after they were revoked
	Records  int // of the audit, deleted
	Receipts int // of webhooks' calls, deleted
	Hosts    int // reservations, deleted
	Events   int // announced
	Listed   int // entries of the list of keys that were corrected

	Thresholds int // memories of what was announced, deleted
}

// Receive does a run for each ping. Other events are none of ours and are taken
// without a word to the sender, who would only send them again; so is a ping
// during a run. The error of a run makes the sender try again.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	if e.Type() != funcmain.PingType {
		s.log.WarnContext(ctx, "event ignored", "type", e.Type(), "source", e.Source())
		return nil
	}
	err := s.Once(ctx)
	if errors.Is(err, ErrBusy) {
		return nil
	}
	return err
}

// Once does one run and logs what it did.
func (s *Service) Once(ctx context.Context) error {
	began := s.now()
	r, err := s.Run(ctx)
	log := s.log.With("days", r.Days, "settled", r.Settled, "counters", r.Counters, "rollups", r.Rollups,
		"deleted", r.Deleted, "pruned", r.Pruned, "canaries", r.Canaries, "leases", r.Leases, "audit_records", r.Records,
		"receipts", r.Receipts, "host_reservations", r.Hosts, "events", r.Events, "thresholds", r.Thresholds, "listed", r.Listed,
		"took_ms", s.now().Sub(began)/time.Millisecond)
	if !errors.Is(err, ErrBusy) {
		s.gauges.ran(err, s.now())
	}
	switch {
	case errors.Is(err, ErrBusy):
		s.log.WarnContext(ctx, "run skipped: the one before is under way")
	case err != nil:
		log.ErrorContext(ctx, "run failed", "error", err)
	default:
		log.InfoContext(ctx, "run done")
	}
	return err
}

// Run does one run. A day that fails does not keep later days from being
// merged, but no later day is settled before it; errors come together at the end. A
// run during another of the same process is [ErrBusy].
func (s *Service) Run(ctx context.Context) (Result, error) {
	if !s.running.TryLock() {
		return Result{}, ErrBusy
	}
	defer s.running.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.run())
	defer cancel()
	began, err := s.time(ctx)
	if err != nil {
		return Result{}, err
	}
	r := &run{Service: s, began: began, today: usage.DayOf(began), open: map[usage.Day]usage.Sums{}}
	err = r.do(ctx)
	return r.result, err
}

// maxClockLead is how far the process's clock may lead the store's without a warning.
const maxClockLead = time.Second

// time returns the earlier of the time by the process's clock and by the store's.
func (s *Service) time(ctx context.Context) (time.Time, error) {
	stored, err := s.store.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	own := s.now()
	if !own.After(stored) {
		return own.UTC(), nil
	}
	if by := own.Sub(stored); by > maxClockLead {
		s.log.WarnContext(ctx, "clock is ahead of the store's", "by_ms", by/time.Millisecond)
	}
	return stored.UTC(), nil
}

// run is one run.
type run struct {
	*Service

	began  time.Time
	today  usage.Day
	open   map[usage.Day]usage.Sums // of the days that are not closed
	result Result
}

func (r *run) do(ctx context.Context) error {
	settled, err := r.settledDay(ctx)
	if err != nil {
		return err
	}
	// Open days first: last_seen should not wait for a long backlog.
	var errs error
	for day := r.firstOpen(settled); day <= r.today+1; day++ { // a checker's clock may be ahead
		errs = errors.Join(errs, r.merge(ctx, day))
	}
	for day := settled + 1; day.Closed(r.began); day++ {
		if err := r.settle(ctx, day); err != nil {
			return errors.Join(errs, fmt.Errorf("settle %s: %w", day, err))
		}
		settled = day
	}
	r.gauges.settledUpTo(settled)
	maps.DeleteFunc(r.stored, func(day usage.Day, _ usage.Sums) bool { return day <= settled })
	if errs == nil { // else sums are missing
		errs = r.announce(ctx, settled)
	}
	known := errs == nil
	errs = errors.Join(errs, r.prune(ctx, settled), r.keylist(ctx, settled))
	if known { // after the pass, which may have added a day to the summaries
		errs = errors.Join(errs, r.summarize(ctx))
	}
	return errs
}

// settledDay gives the last settled day; of a store without one, the day before
// its first counter, or before the first day that is not closed.
func (r *run) settledDay(ctx context.Context) (usage.Day, error) {
	settled, err := r.store.SettledDay(ctx)
	if err == nil || !problem.Is(err, problem.NotFound) {
		return settled, err
	}
	first := r.today
	for first > 0 && !(first - 1).Closed(r.began) {
		first--
	}
	oldest, err := r.store.OldestCounter(ctx)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return 0, err
	}
	if err == nil {
		first = min(first, oldest)
	}
	return first - 1, nil
}

// firstOpen is the first unsettled day that is not closed.
func (r *run) firstOpen(settled usage.Day) usage.Day {
	day := settled + 1
	for day.Closed(r.began) {
		day++
	}
	return day
}
