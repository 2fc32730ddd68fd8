// Package rollup is the function that aggregates counters into the daily usage of each key
// (promises U1, U3). A CloudEvent of type dev.knative.sources.ping starts a run every minute;
// `rollup --once` performs a single run.
//
// # Steps of a run
//
//  1. Merge: sum the counters of each day that is not finalized, and merge them into the rollups.
//  2. Settle: finalize each closed day ([usage.Closing] after its end). Compact its counters, merge
//     again and mark it as settled. It never changes afterwards.
//  3. Announce, with EVENTS on: expiring and expired keys, used quotas, and gates that all deny
//     (promise D13).
//  4. Prune, after a day was finalized and in the first run of a process: delete documents that
//     are no longer needed.
//  5. List: compare the list of keys (collection keylist) with the changed keys, and once a day
//     with all keys. Each pass over all keys stores a summary of each environment.
//  6. Summarize: store the keys of each environment with requests on open days or near their
//     limits.
//
// # Why totals are correct
//
//  1. The sum of a key's counters of a day never decreases: counters only grow, and compaction
//     replaces counters by their sum in a transaction.
//  2. A rollup stores the maximum of its value and that sum. Repeated, concurrent and late runs
//     therefore have the same result.
//  3. Counters are deleted only after their day is finalized, when the rollups contain the whole
//     day. If a run ends earlier, the next run repeats the day. A day with partly deleted
//     counters is never summed again.
//
// # Cost
//
// A run reads the counters of the three or four days that are not finalized. It writes a rollup
// when a key is first seen on a day, when the day has ended, and for late counts: about two writes
// per key and day. Usage reports add the counters of these days (package usage). A process reads
// each used key and its plan once an hour, so a changed plan takes effect within an hour.
//
// # Failures
//
// A damaged counter or rollup is skipped; its day is marked as incomplete. If a step fails, the run
// fails, and the next run repeats it. A run uses the process's or the store's clock, whichever is
// earlier: a fast clock would delete leases and canaries that are still needed.
package rollup

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
)

// Store is the storage for runs.
type Store interface {
	Now(ctx context.Context) (time.Time, error)

	OldestCounter(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	CompactCounters(ctx context.Context, day usage.Day, shard int, sources []usage.CounterSource) error
	DeleteCounters(ctx context.Context, before usage.Day) (int, error)

	UpdateRollups(ctx context.Context, prefixes []apikey.Prefix, change func(apikey.Prefix, usage.History) usage.History) error
	RollupsOlder(ctx context.Context, before usage.Day, limit int) ([]apikey.Prefix, error)

	// SettledDay returns the last finalized day, or a not_found problem if there is none.
	SettledDay(ctx context.Context) (usage.Day, error)
	SettleDay(ctx context.Context, day usage.Day) error
	MarkIncomplete(ctx context.Context, day, earliest usage.Day) error

	DeleteLeases(ctx context.Context, before time.Time, limit int) (int, error) // of hard quotas
	DeleteStaleCanaries(ctx context.Context, before time.Time) (int, error)
	DeleteRevokedKeys(ctx context.Context, before time.Time, limit int) (int, error)
	DeleteRecords(ctx context.Context, before time.Time, limit int) (int, error) // of the audit
	DeleteReceipts(ctx context.Context, before time.Time, limit int) (int, error)
	DeleteReservations(ctx context.Context, before time.Time, limit int) (int, error) // of hosts

	// The list of keys.
	KeyList(ctx context.Context) (store.ListState, error)
	SetKeyList(ctx context.Context, l store.ListState) error
	RelistKeys(ctx context.Context, after apikey.ID, limit int, use func(apikey.Key, usage.History)) (last apikey.ID, corrected int, err error)
	RelistChanged(ctx context.Context, since time.Time, limit int) (last time.Time, compared, corrected int, err error)

	// The summaries of environments, by namespace.
	SetSummaries(ctx context.Context, all map[string]store.Summary) error
	SetUsed(ctx context.Context, namespace string, used, attention []apikey.Prefix) error
	Used(ctx context.Context, namespace string) ([]apikey.Prefix, error)

	// Each announcement is made only once.
	AnnounceExpiries(ctx context.Context, e event.Expiry, limit int) (int, error)
	AnnounceQuotas(ctx context.Context, all []store.QuotaCrossing) (int, error)
	AnnounceGates(ctx context.Context, denying bool, checkers int) (bool, error)
	DeleteThresholds(ctx context.Context, before time.Time, limit int) (int, error)
	KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error)
	PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error)
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
	Members(ctx context.Context, t store.CanaryType) (checkers.List, error)
}

// Service performs runs.
type Service struct {
	cfg    Config
	store  Store
	log    *slog.Logger
	now    func() time.Time
	gauges *gauges

	running   sync.Mutex               // held during a run; guards the following fields
	stored    map[usage.Day]usage.Sums // known contents of the rollups for days that are not finalized
	pruned    bool                     // in this process
	prunedDay usage.Day                // last finalized day at that time

	quotaUsers map[apikey.Prefix]quotaUser // keys with requests on open days
	warned     sync.Map                    // damaged documents that were logged
	denied     bool                        // all gates denied in the previous run
	denying    bool                        // last announced state, if gatesKnown
	gatesKnown bool

	pass       *pass              // over all keys; nil between passes
	summarized map[string]current // known stored summaries, by namespace
}

// New returns a service.
func New(cfg Config, s Store, log *slog.Logger) *Service {
	return &Service{cfg: cfg, store: s, log: log, now: time.Now, gauges: newGauges(), stored: map[usage.Day]usage.Sums{}, summarized: map[string]current{}}
}

type gauges struct {
	runs    *prometheus.CounterVec
	success prometheus.Gauge
	settled prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rollup_runs_total", Help: "Completed runs by outcome.",
		}, []string{"outcome"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_last_success_timestamp_seconds", Help: "End of the last successful run; 0 before the first.",
		}),
		settled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_settled_day_timestamp_seconds", Help: "End of the last settled UTC day; 0 before the first run.",
		}),
	}
	g.runs.WithLabelValues("done")
	g.runs.WithLabelValues("failed")
	return g
}

func (g *gauges) ran(err error, now time.Time) {
	if err != nil {
		g.runs.WithLabelValues("failed").Inc()
		return
	}
	g.runs.WithLabelValues("done").Inc()
	g.success.Set(float64(now.Unix()))
}

func (g *gauges) settledUpTo(day usage.Day) { g.settled.Set(float64((day + 1).Start().Unix())) }

// Collectors returns the metrics of the function.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.runs, s.gauges.success, s.gauges.settled}
}
