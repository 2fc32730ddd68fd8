package checker

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
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
func inUse() uint64 {
	s := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64()
}
