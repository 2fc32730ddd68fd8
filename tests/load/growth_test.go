package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// measure is a quantity of a process that must not grow.
type measure int

const (
	memory     measure = iota // resident, bytes
	files                     // open descriptors
	goroutines                // threads if the program reports no goroutines
	measures
)

func (m measure) String() string {
	return [...]string{"memory", "file descriptors", "goroutines or threads"}[m]
}

// slack is the growth that counts as noise: a checker accumulates 32 MiB of garbage, or more with
// the race detector. At 3,000 requests per second for ten minutes, a leak of 36 bytes per request
// exceeds it.
func (m measure) slack(mean float64) float64 {
	switch m {
	case memory:
		return max(0.15*mean, 64<<20)
	case files:
		return 12
	case goroutines, measures:
	}
	return max(0.15*mean, 24)
}

func (m measure) text(v float64) string {
	if m == memory {
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.1f", v)
}

type point struct {
	at    time.Time
	value [measures]float64
}

// life is a process between two restarts.
type life struct {
	name   string
	pid    int
	points []point
}

type sampler struct {
	mu    sync.Mutex
	lives map[int]*life
}

func (s *sampler) run(ctx context.Context, every time.Duration) {
	for s.lives = map[int]*life{}; ctx.Err() == nil; pause(ctx, every) {
		for name, pid := range world.Info().PIDs {
			if name != "stack" { // the test itself
				s.sample(ctx, name, pid)
			}
		}
	}
}

// sample measures a process, unless it restarts or its goroutines are unknown.
func (s *sampler) sample(ctx context.Context, name string, pid int) {
	p := point{at: time.Now()}
	var err error
	if p.value[memory], p.value[goroutines], err = status(pid); err != nil {
		return
	}
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		return
	}
	p.value[files] = float64(len(open))
	if url, ok := world.Info().Metrics[name]; ok {
		if p.value[goroutines], ok = metric(ctx, url, "go_goroutines"); !ok {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives[pid] == nil {
		s.lives[pid] = &life{name: name, pid: pid}
	}
	s.lives[pid].points = append(s.lives[pid].points, p)
}

func status(pid int) (resident, threads float64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseFloat(fields[1], 64) // 0 for words
		switch fields[0] {
		case "VmRSS:":
			resident = n * 1024
		case "Threads:":
			threads = n
		}
	}
	if resident == 0 {
		return 0, 0, fmt.Errorf("no resident memory of process %d", pid)
	}
	return resident, threads, nil
}

func metric(ctx context.Context, url, name string) (float64, bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, false
	}
	a, err := stacktest.Do(http.DefaultClient, req)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(a.Body) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return n, err == nil
		}
	}
	return 0, false
}

type growth struct {
	process     string
	what        measure
	mean, grown float64 // during the fit
	over        time.Duration
}

func (s *sampler) fitAll(warm time.Time, minPoints int) (all []growth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(s.lives)) {
		y := s.lives[pid]
		points := slices.DeleteFunc(slices.Clone(y.points), func(p point) bool { return p.at.Before(warm) })
		if len(points) < minPoints {
			continue
		}
		for m := range measures {
			mean, slope := leakSlope(points, m)
			over := points[len(points)-1].at.Sub(points[0].at)
			all = append(all, growth{process: y.name, what: m, mean: mean, grown: slope * over.Seconds(), over: over})
		}
	}
	return all
}

// leakSlope returns the mean, and the lower of the slopes per second of the two halves. A heap
// that fills up, or a single jump, does not raise both slopes.
func leakSlope(points []point, m measure) (mean, slope float64) {
	half := len(points) / 2
	mean, _ = fit(points, m)
	_, first := fit(points[:half+1], m)
	_, second := fit(points[half:], m)
	return mean, min(first, second)
}

// fit returns the mean and the slope per second of the least-squares line.
func fit(points []point, m measure) (mean, slope float64) {
	n := float64(len(points))
	var t, v float64
	for _, p := range points {
		t += p.at.Sub(points[0].at).Seconds() / n
		v += p.value[m] / n
	}
	var above, below float64
	for _, p := range points {
		d := p.at.Sub(points[0].at).Seconds() - t
		above += d * (p.value[m] - v)
		below += d * d
	}
	if below == 0 {
		return v, 0
	}
	return v, above / below
}

func TestLeakSlope(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	line := func(value func(i int) float64) (points []point) {
		for i := range 100 {
			p := point{at: zero.Add(time.Duration(i) * time.Second)}
			p.value[files] = value(i)
			points = append(points, p)
		}
		return points
	}
	for name, test := range map[string]struct {
		value func(i int) float64
		want  float64
	}{
		"leaks":      {func(i int) float64 { return 20 + 0.5*float64(i) + float64(i%2) }, 0.5},
		"fills up":   {func(i int) float64 { return min(20+float64(i), 60) }, 0},
		"jumps":      {func(i int) float64 { return 20 + float64(i/60*50) }, 0},
		"grows late": {func(i int) float64 { return 20 + max(0, float64(i)-60) }, 0},
	} {
		if _, slope := leakSlope(line(test.value), files); math.Abs(slope-test.want) > 0.02 {
			t.Errorf("%s: slope: got %.3f, want %.1f", name, slope, test.want)
		}
	}
	if mean, slope := fit(line(func(i int) float64 { return 20 + 0.5*float64(i) }), files); math.Abs(slope-0.5) > 0.001 || math.Abs(mean-44.75) > 0.001 {
		t.Errorf("fit: got mean %.3f, slope %.3f, want 44.75, 0.5", mean, slope)
	}
}
