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

// ErrBusy means that another run of this process is in progress.
var ErrBusy = errors.New("run in progress")

// Result contains the numbers of processed items in a run.
type Result struct {
	Days     int // merged or settled
	Settled  int // of Days
	Counters int // documents read
	Rollups  int // documents compared
	Deleted  int // counters
	Pruned   int // rollups
	Canaries int // deleted
	Leases   int // deleted
	Keys     int // revoked keys deleted
	Records  int // audit records deleted
	Receipts int // receipts of webhook calls deleted
	Hosts    int // host reservations deleted
	Events   int // announced
	Listed   int // entries corrected in the list of keys

	Thresholds int // announcement marks deleted
}

// Receive performs a run for a ping. It accepts other events, and pings during a run, without an
// error, so that the sender does not retry. It returns the error of the run.
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

// Once performs a run and logs the result.
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
		s.log.WarnContext(ctx, "run skipped: previous run still in progress")
	case err != nil:
		log.ErrorContext(ctx, "run failed", "error", err)
	default:
		log.InfoContext(ctx, "run done")
	}
	return err
}

// Run performs a run. If a day fails, later days are still merged, but not finalized; Run returns
// all errors joined. It returns [ErrBusy] during another run of this process.
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

// maxClockLead is the lead of the process's clock from which a warning is logged.
const maxClockLead = time.Second

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
		s.log.WarnContext(ctx, "clock ahead of store", "by_ms", by/time.Millisecond)
	}
	return stored.UTC(), nil
}

type run struct {
	*Service

	began  time.Time
	today  usage.Day
	open   map[usage.Day]usage.Sums // of days that are not closed
	result Result
}

func (r *run) do(ctx context.Context) error {
	settled, err := r.settledDay(ctx)
	if err != nil {
		return err
	}
	// Open days first: last_seen must not wait for a backlog.
	var errs error
	for day := r.firstOpen(settled); day <= r.today+1; day++ { // checkers may have fast clocks
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
	if errs == nil { // otherwise sums are missing
		errs = r.announce(ctx, settled)
	}
	known := errs == nil
	errs = errors.Join(errs, r.prune(ctx, settled), r.keylist(ctx, settled))
	if known { // after the pass, which may add a day to the summaries
		errs = errors.Join(errs, r.summarize(ctx))
	}
	return errs
}

// settledDay returns the last finalized day. Without one, it returns the day before the first
// counter or before the first open day, whichever is earlier.
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

func (r *run) firstOpen(settled usage.Day) usage.Day {
	day := settled + 1
	for day.Closed(r.began) {
		day++
	}
	return day
}
