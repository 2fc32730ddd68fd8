package usage

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
)

func (h *harness) allowed(day string) uint64 {
	h.t.Helper()
	return h.usage("?from=" + day + "&to=" + day).Totals.Allowed
}

func TestRollupAndCounters(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.flush("2024-03-01", "a-1", usage.Totals{Allowed: 5})
	h.rollUp("2024-03-01", usage.Totals{Allowed: 3}) // less than the counters
	if got := h.allowed("2024-03-01"); got != 5 {
		t.Errorf("allowed: got %d", got)
	}
	h.rollUp("2024-03-02", usage.Totals{Allowed: 9}) // more than the counters
	if got := h.allowed("2024-03-02"); got != 9 {
		t.Errorf("allowed: got %d", got)
	}
	h.rollUp("2024-03-01", usage.Totals{Allowed: 5})
	if got := h.usage("").Totals.Allowed; got != 14 {
		t.Errorf("allowed in total: got %d", got)
	}
}

func TestUnsettledDays(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.flush("2023-12-01", "a-1", usage.Totals{Allowed: 1}) // before the cutoff
	h.flush("2023-12-02", "a-1", usage.Totals{Allowed: 2})
	h.flush("2024-02-28", "a-1", usage.Totals{Allowed: 4})
	h.flush("2024-02-29", "a-1", usage.Totals{Allowed: 8})
	if u := h.usage("?from=2023-12-02"); u.Totals.Allowed != 14 || h.store.counters.Load() != 3 {
		t.Errorf("got %d allowed, %d counters read", u.Totals.Allowed, h.store.counters.Load())
	}
	check.OK(t, h.store.SettleDay(t.Context(), h.day("2024-02-28")))
	h.rollUp("2023-12-02", usage.Totals{Allowed: 2})
	h.rollUp("2024-02-28", usage.Totals{Allowed: 4})
	h.store.counters.Store(0)
	if u := h.usage("?from=2023-12-02"); u.Totals.Allowed != 14 || h.store.counters.Load() != 1 {
		t.Errorf("got %d allowed, %d counters read", u.Totals.Allowed, h.store.counters.Load())
	}
}

func TestReadingIsShared(t *testing.T) {
	t.Parallel()
	h := start(t, 2)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a := h.get("/api/v1/projects/shop/api-keys/key-aaaaaaaa/usage"); a.Status != http.StatusOK {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
		})
	}
	wg.Wait()
	h.flush("2024-03-02", "a-1", usage.Totals{Allowed: 1})
	for _, step := range []struct {
		after time.Duration
		want  uint64
		reads int64
	}{
		{0, 0, 1},
		{1999 * time.Millisecond, 0, 1},
		{time.Millisecond, 1, 2},
		{time.Second, 1, 2},
		{12*time.Hour - 3100*time.Millisecond, 1, 3},
		{200 * time.Millisecond, 1, 4}, // after midnight
	} {
		h.now = h.now.Add(step.after)
		if got := h.allowed("2024-03-02"); got != step.want || h.store.reads.Load() != step.reads {
			t.Errorf("at %s: got %d after %d reads", h.now, got, h.store.reads.Load())
		}
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	h := start(t, 2)
	const keys, inShard = 5000, 1024
	for d := h.day("2024-02-29"); d <= h.day("2024-03-02"); d++ {
		for _, source := range []usage.CounterSource{"a-1", "b-1"} {
			for shard := 0; shard*inShard < keys; shard++ {
				c := usage.Counter{Day: d, Source: source, Shard: shard}
				for i := shard * inShard; i < min(keys, (shard+1)*inShard); i++ {
					c.Counts = c.Counts.Pack(prefix(i), usage.Totals{Allowed: 1e6})
				}
				_, err := h.store.WriteCounter(t.Context(), c, store.CounterVersion{})
				check.OK(t, err)
			}
		}
	}
	check.OK(t, h.store.SettleDay(t.Context(), h.day("2024-02-28")))
	for range 10 {
		h.usage("")
	}
	if got := h.store.counters.Load(); got != 3*2*5 {
		t.Errorf("counters read for 10 reports: got %d", got)
	}
	t.Logf("10 reports over %d keys: %d counters and 1 mark read once, then 1 key and 1 rollup each", keys, h.store.counters.Load())
}

func prefix(i int) apikey.Prefix { return apikey.Prefix(fmt.Sprintf("%08d", i)) }
