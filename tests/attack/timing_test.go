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

// The blocks of all kinds of keys are interleaved, so that the machine's load affects each kind
// equally.
const (
	timingBlocks = 400
	timingBlock  = 200
	timingSigmas = 5 // one false alarm in more than a million runs
	timingEffect = 0.05
)

// TestRefusalTiming measures within this process, without the noise of a network.
func TestRefusalTiming(t *testing.T) { //nolint:paralleltest // it measures
	row := attacks.Test(t, "response times of a checker's denials, to detect existing prefixes",
		"equal for known, disabled and unknown prefixes (rank test; medians within 5%)")
	s, k := gated(t)
	question := func(key string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/check/"+s.Project+"-prod/hello", nil)
		r.Header.Set("X-Forwarded-Method", http.MethodGet)
		r.Header.Set("X-API-Key", key)
		return r
	}
	equallyLong(t, s, row, question, k)
}

func TestOwnKeyTiming(t *testing.T) { //nolint:paralleltest // it measures
	row := attacks.Test(t, "response times of `GET /api/v1/key`, to detect existing prefixes",
		"equal for known, disabled and unknown prefixes (rank test; medians within 5%)")
	s, k := gated(t)
	question := func(key string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, api.GetOwnKey.Path, nil)
		r.Header.Set("X-API-Key", key)
		return r
	}
	equallyLong(t, s, row, question, k)
}

// equallyLong compares the response times for keys that are invalid for different reasons.
func equallyLong(t *testing.T, s *stacktest.Site, row *report.Row, question func(string) *http.Request, good stacktest.Key) {
	t.Helper()
	active, off := pool(s), pool(s)
	for _, k := range off {
		s.Disable(k)
	}
	h := ownChecker(t)
	// Processors optimize repeated inputs, so each kind has many keys.
	unknown := func() []string { return guesses(t, nil) }
	kinds := [][]string{unknown(), guesses(t, active), guesses(t, off), unknown(), fulls(off)}
	stacktest.Until(t, "accept the key", func() bool {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, question(good.Full))
		return w.Code == http.StatusOK
	})
	took := sample(h, question, kinds)
	names := []string{"unknown", "known prefixes", "disabled prefixes", "another unknown", "disabled keys themselves"}
	worst := 0.0
	// Two kinds contain unknown keys; their difference is noise.
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
	row.Measured(fmt.Sprintf("%d requests; medians differ by at most %.1f%%", len(took)*timingBlocks*timingBlock, 100*worst))
}

const poolSize = 40

func pool(s *stacktest.Site) []stacktest.Key {
	p := s.Plan(wire.CreatePlan{})
	var all []stacktest.Key
	for range poolSize {
		all = append(all, s.Key(p))
	}
	return all
}

// guesses returns well-formed keys with made-up secrets, for existing prefixes or, if of is nil,
// for unknown ones.
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

// sample returns the durations of blocks of requests by kind, in nanoseconds, measured in random
// order.
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

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// rankTest returns the z value of the Mann-Whitney test, which ignores the size of outliers.
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
		t.Errorf("equal samples: got z %.1f", z)
	}
	if z := rankTest(draw(0), draw(6)); math.Abs(z) < timingSigmas {
		t.Errorf("samples that differ by 6%%: got z %.1f", z)
	}
}

// ownChecker runs a checker in this process with the stack's store.
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
