// Package rollup is the function that turns counters into each key's durable daily
// usage (promises U1, U3). A CloudEvent of type dev.knative.sources.ping, every minute,
// starts one run; `rollup --once` does one run and ends.
//
// # One run
//
//  1. Merge: of each day that is not settled yet, all counters are read at one
//     time, summed over sources, and merged into the rollups.
//  2. Settle: a day that is closed ([usage.Closing] after its end) has its
//     counters compacted, is merged once more, and is then marked as settled,
//     with all days before it. Nothing of it changes any more.
//  3. Announce, where EVENTS is on: keys that expire in 14 days, in one, or have (promise D13);
//     keys that have used 80 % or all of their quota; that all gates deny.
//  4. Prune: counters of settled days that no quota period needs are deleted,
//     rollups lose the days that are out of retention, canaries of replicas that
//     are gone are removed, and so are leases of quotas whose period is over, keys that were revoked on a day that is out of
//     retention, audit records older than a year, and receipts of webhooks older than a week, where the
//     store's TTL policy has not been quicker. This is done when a day was settled, and in a
//     process's first run.
//  5. List: the list of keys (collection keylist), by which the function keys finds keys, is
//     compared with the keys that changed, and once a day with all keys, and corrected. The
//     first pass lists the keys of an earlier release; until it ends, the function keys reads
//     the keys themselves. At its end, each pass stores the totals of the settled days and the
//     busiest keys of each environment.
//  6. Summarize: for each environment, the keys with requests on the open days, and those near
//     their limits, are stored if they changed. Reports of environments add the counters of
//     these keys to the totals of the settled days.
//
// # Why totals are right, whatever happens
//
// A key's sum over a day's counters only ever grows: sources grow, and a
// compaction replaces counters by their sum in one transaction. A rollup takes
// the larger of what it holds and of such a sum, so a run twice, two runs at
// once, and a run that is late all lead to the same. Counters are deleted only
// once their day is settled, that is after a whole day's rollups were written
// from its compacted counters; a run that ends anywhere before leaves the day
// unsettled, and the next one does it again. A day of which counters are only
// partly deleted is never summed again.
//
// # Cost
//
// Every run reads the counters of the three or four days that are not settled:
// as many documents as there were dirty shards. A rollup is written when its key
// is first seen on a day (so that last_seen is right within a run), after the day
// is over, and when late counts come in, not every minute: whoever reports usage
// adds the counters of the days that are not settled to the rollup (package
// usage). So a key costs about two writes for each day that it is used on,
// however much. What a process knows to be stored it does not read again; one
// that has just started reads each of those rollups once.
//
// # Events
//
// What time brings about is announced once, with a mark that outlives the event (package
// store). A look for expiring keys reads the mark and the keys that have come to their moment
// since: six documents a run while there are none. Quotas are held against the sums that the
// run has just read, with events or without. A process reads each
// key that was used in the open days, and its plan, once an hour, its rollup when a day was
// settled, and nothing in between; so a changed plan counts within the hour. Whether all gates deny follows from the checkers' canaries, three documents a replica. That is known of
// the installation, not of an app: every checker serves all of them. And it is not known while
// the store itself is away, where nothing can be written down.
//
// Whatever of that fails makes the run fail, and the next one does it.
//
// # Damaged documents
//
// A counter or a rollup that cannot be read is skipped: it stays as it is, and everything
// else goes on. The store counts it for an alert, and a process logs it once. A day is marked
// as incomplete if it is settled without a damaged counter.
//
// # Clocks
//
// A run uses the earlier of two clocks: its own and the store's. A clock that is ahead
// would delete leases and canaries that are still needed.
//
// # Keys that are gone
//
// A rollup holds only what is kept: its oldest days go at the latest one day
// after they are out of retention, and with its last day the document goes. So
// what belongs to a deleted key goes by itself.
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

// Store is what a run reads and writes.
type Store interface {
	Now(ctx context.Context) (time.Time, error)

	OldestCounter(ctx context.Context) (usage.Day, error)
	EachCounter(ctx context.Context, first, last usage.Day, use func(usage.Counter) error) error
	CompactCounters(ctx context.Context, day usage.Day, shard int, sources []usage.Source) error
	DeleteCounters(ctx context.Context, before usage.Day) (int, error)

	UpdateRollups(ctx context.Context, prefixes []apikey.Prefix, change func(apikey.Prefix, usage.History) usage.History) error
	RollupsOlder(ctx context.Context, before usage.Day, limit int) ([]apikey.Prefix, error)

	// SettledDay gives the last settled day. Problem: not_found before the first.
	SettledDay(ctx context.Context) (usage.Day, error)
	SettleDay(ctx context.Context, day usage.Day) error
	// MarkIncomplete notes that the counts of a day are incomplete.
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

	// For events. Each announces what was not announced before.
	AnnounceExpiries(ctx context.Context, e event.Expiry, limit int) (int, error)
	AnnounceQuotas(ctx context.Context, all []store.Spent) (int, error)
	AnnounceGates(ctx context.Context, denying bool, checkers int) (bool, error)
	DeleteThresholds(ctx context.Context, before time.Time, limit int) (int, error)
	KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error)
	PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error)
	Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error)
	Members(ctx context.Context, t store.CanaryType) (checkers.List, error)
}

// Service rolls up.
type Service struct {
	cfg    Config
	store  Store
	log    *slog.Logger
	now    func() time.Time
	gauges *gauges

	running   sync.Mutex               // held by the one run; guards what follows
	stored    map[usage.Day]usage.Sums // what this process knows to be in the rollups, of days that are not settled
	pruned    bool                     // in this process
	prunedDay usage.Day                // the settled day when it last was

	spenders   map[apikey.Prefix]spender // keys with requests in the open days
	warned     sync.Map                  // damaged documents that are logged
	denied     bool                      // all gates, in the run before
	denying    bool                      // was announced last, if that is known
	gatesKnown bool

	pass       *pass              // over all keys; nil between passes
	summarized map[string]current // what this process knows to be stored, by namespace
}

// New makes a service.
func New(cfg Config, s Store, log *slog.Logger) *Service {
	return &Service{cfg: cfg, store: s, log: log, now: time.Now, gauges: newGauges(), stored: map[usage.Day]usage.Sums{}, summarized: map[string]current{}}
}

// gauges are the function's own metrics. How far behind it is can be read off them:
// time() less either timestamp.
type gauges struct {
	runs    *prometheus.CounterVec
	success prometheus.Gauge
	settled prometheus.Gauge
}

func newGauges() *gauges {
	g := &gauges{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rollup_runs_total", Help: "Runs that ended, by outcome.",
		}, []string{"outcome"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_last_success_timestamp_seconds", Help: "When the last run without an error ended; 0 before the first.",
		}),
		settled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_rollup_settled_day_timestamp_seconds", Help: "The end of the last settled UTC day; 0 before the first run.",
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

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.gauges.runs, s.gauges.success, s.gauges.settled}
}
