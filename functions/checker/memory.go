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

// The room for garbage, on top of what is in use. Keys are a few big objects
// without pointers, so a collection takes about as long for a million of them as
// for none: with many keys it may come often, which saves memory, and with few it
// should come seldom, which saves time.
const (
	garbage      = 32 << 20 // bytes
	leastPercent = 25       // of what is in use
	mostPercent  = 800
	heapTick     = 10 * time.Second
)

// keepHeap sets how much garbage may pile up as the number of keys changes, and
// gives back the memory that the first full batch of keys took on its way. GOGC in
// the environment turns it off.
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

// garbagePercent is how much garbage may be there beside live bytes, in percent
// of them.
func garbagePercent(live uint64) int {
	return int(min(max(100*garbage/max(live, 1), leastPercent), mostPercent))
}

// inUse is what the last collection found in use, in bytes.
func inUse() uint64 { return sample("/gc/heap/live:bytes")[0].Value.Uint64() }

// memoryInUse is what the runtime has of the machine's memory, in bytes.
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

// limitFiles are where Linux says how much memory a container may take: version 2 of its
// control groups, and version 1.
func limitFiles() []string {
	return []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
}

// memoryLimit is at how many bytes the process is ended, or the runtime gives up keeping
// below; infinite without a limit.
func memoryLimit(files []string) float64 {
	limit := debug.SetMemoryLimit(-1) // GOMEMLIMIT; only asked for
	for _, name := range files {
		text, err := os.ReadFile(name) //nolint:gosec // one of limitFiles
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // else it is "max"
			limit = min(limit, n)
		}
	}
	if limit > math.MaxInt64>>1 { // version 1 has a number close to it for none
		return math.Inf(1)
	}
	return float64(limit)
}
