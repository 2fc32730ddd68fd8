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

// measure is something of a process that must not grow.
type measure int

const (
	memory     measure = iota // resident, bytes
	files                     // open descriptors
	goroutines                // of functions; threads of all else
	measures
)

func (m measure) String() string {
	return [...]string{"memory", "file descriptors", "goroutines or threads"}[m]
}

// slack is how much more of it a process may have at the end of the fit than at its
// begin, by the fitted line: noise of connections that come and go, and garbage, of
// which a checker lets 32 MiB pile up, more with the race detector. In ten minutes of
// 3 000 requests a second, a leak of 36 bytes a request is more than that.
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

// point is a measurement.
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

// sampler looks at all processes of the stack now and then.
type sampler struct {
	mu    sync.Mutex
	lives map[int]*life // by process id
}

func (s *sampler) run(ctx context.Context, every time.Duration) {
	for s.lives = map[int]*life{}; ctx.Err() == nil; pause(ctx, every) {
		for name, pid := range world.Info().PIDs {
			if name != "stack" { // that is this test
				s.look(ctx, name, pid)
			}
		}
	}
}

// look measures a process. One that is just being restarted is left out, and so is one
// whose metrics do not come: its threads are another measure than its goroutines.
func (s *sampler) look(ctx context.Context, name string, pid int) {
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

// status reads a process's resident memory and its threads.
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
		n, _ := strconv.ParseFloat(fields[1], 64) // other lines hold words
		switch fields[0] {
		case "VmRSS:":
			resident = n * 1024
		case "Threads:":
			threads = n
		}
	}
	if resident == 0 {
		return 0, 0, fmt.Errorf("process %d has no memory", pid)
	}
	return resident, threads, nil
}

// metric reads one of a function's metrics.
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

// growth is what a straight line through the measurements says.
type growth struct {
	process     string
	what        measure
	mean, grown float64 // over the whole time of the fit
	over        time.Duration
}

// grown fits what lived from warm on to the end.
func (s *sampler) grown(warm time.Time, least int) (all []growth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(s.lives)) {
		y := s.lives[pid]
		points := slices.DeleteFunc(slices.Clone(y.points), func(p point) bool { return p.at.Before(warm) })
		if len(points) < least {
			continue
		}
		for m := range measures {
			mean, slope := steady(points, m)
			over := points[len(points)-1].at.Sub(points[0].at)
			all = append(all, growth{process: y.name, what: m, mean: mean, grown: slope * over.Seconds(), over: over})
		}
	}
	return all
}

// steady is the mean, and the slope a second at which both halves of the time have grown:
// what leaks grows on, while a heap that only fills up until its collections set in, or
// jumps once, does not.
func steady(points []point, m measure) (mean, slope float64) {
	half := len(points) / 2
	mean, _ = fit(points, m)
	_, first := fit(points[:half+1], m)
	_, second := fit(points[half:], m)
	return mean, min(first, second)
}

// fit is the least-squares line: the mean, and the slope a second.
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

func TestSteady(t *testing.T) {
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
		"leaks":     {func(i int) float64 { return 20 + 0.5*float64(i) + float64(i%2) }, 0.5},
		"fills up":  {func(i int) float64 { return min(20+float64(i), 60) }, 0},
		"jumps":     {func(i int) float64 { return 20 + float64(i/60*50) }, 0},
		"grows old": {func(i int) float64 { return 20 + max(0, float64(i)-60) }, 0},
	} {
		if _, slope := steady(line(test.value), files); math.Abs(slope-test.want) > 0.02 {
			t.Errorf("what %s has slope %.3f, want %.1f", name, slope, test.want)
		}
	}
	if mean, slope := fit(line(func(i int) float64 { return 20 + 0.5*float64(i) }), files); math.Abs(slope-0.5) > 0.001 || math.Abs(mean-44.75) > 0.001 {
		t.Errorf("mean %.3f, slope %.3f", mean, slope)
	}
}
