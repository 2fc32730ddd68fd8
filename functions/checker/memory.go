package checker

import (
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
)

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

// memoryInUse is what the runtime has of the machine's memory, in bytes.
func memoryInUse() uint64 {
	s := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
