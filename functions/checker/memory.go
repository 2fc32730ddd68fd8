package checker

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// With a million keys, a garbage collection takes about as long as with none, because keys are in
// large objects without pointers. It can therefore run often, which saves memory.
const (
	garbage    = 32 << 20 // bytes in addition to live memory
	minPercent = 25       // percent of live memory
	maxPercent = 800
	heapTick   = 10 * time.Second
)

// keepHeap adjusts the garbage percentage to the live memory, and returns unused memory to the
// system. It does nothing if GOGC is set.
func keepHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTicker(heapTick)
	defer tick.Stop()
	for set := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if live := inUse(); live < set-set/4 || live > set+set/4 {
			debug.SetGCPercent(garbagePercent(live))
			debug.FreeOSMemory()
			set = inUse()
		}
	}
}

func garbagePercent(live uint64) int {
	return int(min(max(100*garbage/max(live, 1), minPercent), maxPercent))
}

func inUse() uint64 { return sample("/gc/heap/live:bytes")[0].Value.Uint64() }

func memoryInUse() uint64 {
	s := sample("/memory/classes/total:bytes", "/memory/classes/heap/released:bytes")
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

func sample(names ...string) []runtimemetrics.Sample {
	s := make([]runtimemetrics.Sample, len(names))
	for i := range names {
		s[i].Name = names[i]
	}
	runtimemetrics.Read(s)
	return s
}

func limitFiles() []string {
	return []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
}

// memoryLimit returns the memory limit of the process in bytes, or infinity.
func memoryLimit(files []string) float64 {
	limit := debug.SetMemoryLimit(-1) // reads GOMEMLIMIT
	for _, name := range files {
		text, err := os.ReadFile(name) //nolint:gosec // one of limitFiles
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	if limit > math.MaxInt64>>1 { // no limit in version 1
		return math.Inf(1)
	}
	return float64(limit)
}
