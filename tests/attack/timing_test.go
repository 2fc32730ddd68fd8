package attack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/report"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// Of the timing test: how many blocks of refusals are timed for each kind of key, how
// many refusals one block has, and how sure a difference must be to count. Blocks of
// the kinds are interleaved, so that the machine's moods meet all alike.
const (
	timingBlocks = 400
	timingBlock  = 200
	timingSigmas = 5 // one false alarm in more than a million runs
	timingEffect = 0.05
)

// TestRefusalTiming asks a checker in this process, without a network between, how
// long it takes to refuse keys that differ in what is wrong with them.
func TestRefusalTiming(t *testing.T) { //nolint:paralleltest // it measures
	row := attacks.Test(t, "telling real prefixes from others by the time of the refusal, in process, without a network's noise",
		"known, disabled and unknown prefixes take equally long (rank test over interleaved blocks, and medians within 5 %)")
	s, k := gated(t)
	question := func(key string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/check/"+s.Project+"-prod/hello", nil)
		r.Header.Set("X-Forwarded-Method", http.MethodGet)
		r.Header.Set("X-API-Key", key)
		return r
	}
	equallyLong(t, s, row, question, k)
}

// TestOwnKeyTiming asks the same of what a key tells its holder.
func TestOwnKeyTiming(t *testing.T) { //nolint:paralleltest // it measures
	row := attacks.Test(t, "telling real prefixes from others by the time in which `GET /api/v1/key` refuses them, in process",
		"known, disabled and unknown prefixes take equally long (rank test over interleaved blocks, and medians within 5 %)")
	s, k := gated(t)
	question := func(key string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, api.GetOwnKey.Path, nil)
		r.Header.Set("X-API-Key", key)
		return r
	}
	equallyLong(t, s, row, question, k)
}

// equallyLong asks about keys that differ in what is wrong with them, and about a good one
// until it is known.
func equallyLong(t *testing.T, s *stacktest.Site, row *report.Row, question func(string) *http.Request, good stacktest.Key) {
	t.Helper()
	active, off := pool(s), pool(s)
	for _, k := range off {
		s.Disable(k)
	}
	h := ownChecker(t)
	// Each kind is as many keys, drawn once: processors learn what they see again.
	unknown := func() []string { return guesses(t, nil) }
	kinds := [][]string{unknown(), guesses(t, active), guesses(t, off), unknown(), fulls(off)}
	stacktest.Until(t, "know the key", func() bool {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, question(good.Full))
		return w.Code == http.StatusOK
	})
	took := sample(h, question, kinds)
	names := []string{"unknown", "known prefixes", "disabled prefixes", "another unknown", "disabled keys themselves"}
	worst := 0.0
	// What two kinds that are alike differ by is the machine's doing.
	allowed := timingEffect + math.Abs(median(took[3])/median(took[0])-1)
	for i := 1; i < len(took); i++ {
		z := rankTest(took[0], took[i])
		effect := math.Abs(median(took[i])/median(took[0]) - 1)
		worst = max(worst, effect)
		t.Logf("%s against unknown: median %+.1f %%, z %.1f", names[i], 100*(median(took[i])/median(took[0])-1), z)
		if math.Abs(z) > timingSigmas && effect > allowed {
			t.Errorf("%s: %.1f standard deviations and %.1f %% from unknown", names[i], z, 100*effect)
		}
	}
	row.Measured(fmt.Sprintf("%d refusals; medians differ by at most %.1f %%", len(took)*timingBlocks*timingBlock, 100*worst))
}

// poolSize is how many keys of a kind are asked with.
const poolSize = 40

// pool issues keys of one plan.
func pool(s *stacktest.Site) []stacktest.Key {
	p := s.Plan(wire.CreatePlan{})
	var all []stacktest.Key
	for range poolSize {
		all = append(all, s.Key(p))
	}
	return all
}

// guesses are well-formed secrets that nobody has, under the prefixes of keys, or
// under prefixes that nobody has either.
func guesses(t *testing.T, of []stacktest.Key) []string {
	t.Helper()
	var all []string
	for i := range poolSize {
		prefix, err := apikey.NewPrefix(apikey.Random())
		if of != nil {
			prefix = apikey.Prefix(of[i].Prefix)
		}
		full, err2 := apikey.NewSecret(apikey.Random(), prefix)
		check.OK(t, errors.Join(err, err2))
		all = append(all, string(full))
	}
	return all
}

func fulls(keys []stacktest.Key) []string {
	var all []string
	for _, k := range keys {
		all = append(all, k.Full)
	}
	return all
}

// sample times blocks of refusals of each kind, in a new random order each round, and
// gives the time of each block by kind, in nanoseconds.
func sample(h http.Handler, question func(string) *http.Request, kinds [][]string) [][]float64 {
	requests := make([][]*http.Request, len(kinds))
	for i, keys := range kinds {
		for n := range timingBlock {
			requests[i] = append(requests[i], question(keys[n%len(keys)]))
		}
	}
	times := make([][]float64, len(kinds))
	for range timingBlocks {
		for _, i := range rand.Perm(len(kinds)) {
			w := discard{http.Header{}}
			begin := time.Now()
			for _, r := range requests[i] {
				h.ServeHTTP(w, r)
			}
			times[i] = append(times[i], float64(time.Since(begin)))
		}
	}
	return times
}

// discard is a ResponseWriter that costs next to nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// rankTest is the Mann-Whitney test's z: how many standard deviations the ranks of a
// and b lie apart. Ranks do not care how long the longest took.
func rankTest(a, b []float64) float64 {
	type timed struct {
		took float64
		ofA  bool
	}
	var all []timed
	for _, v := range a {
		all = append(all, timed{v, true})
	}
	for _, v := range b {
		all = append(all, timed{v, false})
	}
	slices.SortFunc(all, func(x, y timed) int {
		switch {
		case x.took < y.took:
			return -1
		case x.took > y.took:
			return 1
		}
		return 0
	})
	sum := 0.0
	for i, v := range all {
		if v.ofA {
			sum += float64(i + 1)
		}
	}
	na, nb := float64(len(a)), float64(len(b))
	u := sum - na*(na+1)/2
	return (u - na*nb/2) / math.Sqrt(na*nb*(na+nb+1)/12)
}

func median(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

// TestRankTest: the test that finds differences must be able to.
func TestRankTest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(shift float64) []float64 {
		v := make([]float64, timingBlocks)
		for i := range v {
			v[i] = 100 + r.ExpFloat64()*10 + shift
		}
		return v
	}
	if z := rankTest(draw(0), draw(0)); math.Abs(z) > timingSigmas {
		t.Errorf("alike: %.1f", z)
	}
	if z := rankTest(draw(0), draw(6)); math.Abs(z) < timingSigmas {
		t.Errorf("6 %% apart: %.1f", z)
	}
}

// ownChecker is a replica in this process on the stack's own store.
func ownChecker(t *testing.T) *checker.Checker {
	t.Helper()
	info := world.Info()
	t.Setenv("FIRESTORE_EMULATOR_HOST", info.FirestoreEmulatorHost)
	st, err := store.Open(t.Context(), info.Project)
	check.OK(t, err)
	cfg := checker.Config{
		Replica: "timing", TLSDir: t.TempDir(),
		MaxStaleness: checker.Ceiling, CanaryInterval: 15 * time.Second, FlushInterval: 2 * time.Second, MaxUnshared: 5 * time.Second,
	}
	c, err := checker.New(cfg, store.NewFeed(info.Project), st, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = st.Close()
	})
	return c
}
