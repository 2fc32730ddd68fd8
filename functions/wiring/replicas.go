package wiring

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxReplicas limits the addresses of the ingress. With more, no gate is engaged.
	maxReplicas = 16

	maxLookups = 3
)

type replicas struct {
	lookup func(context.Context) ([]string, error)
	one    func(ctx context.Context, address string) probeResult
}

// probe probes all replicas concurrently. Its result proves what is sought only if the results of
// all replicas do. If a replica does not respond, probe looks up the addresses again and probes the
// new ones: the replica may have been replaced.
func (r replicas) probe(ctx context.Context, sought proof) probeResult {
	results, found := map[string]probeResult{}, probeResult{kind: unreachable}
	for range maxLookups {
		addresses, err := r.lookup(ctx)
		slices.Sort(addresses)
		addresses = slices.Compact(addresses)
		switch {
		case err != nil || len(addresses) == 0:
			return probeResult{kind: unreachable}
		case len(addresses) > maxReplicas:
			return probeResult{kind: tooMany}
		}
		more := r.probeNew(ctx, results, addresses)
		found = verdict(results, addresses, sought)
		if found.proves(sought) || !found.absent() || !more {
			return found
		}
	}
	return found
}

func (r replicas) probeNew(ctx context.Context, results map[string]probeResult, addresses []string) bool {
	addresses = slices.DeleteFunc(slices.Clone(addresses), func(address string) bool { _, known := results[address]; return known })
	answers := make([]probeResult, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = r.one(ctx, address) })
	}
	all.Wait()
	for i, address := range addresses {
		results[address] = answers[i]
	}
	return len(addresses) > 0
}

// verdict returns the worst result. From worst to best, these are: a request that passed the gate,
// another response without the proof, no response, and the proof.
func verdict(results map[string]probeResult, addresses []string, sought proof) probeResult {
	rank := func(a probeResult) int {
		switch {
		case a.proves(sought):
			return 0
		case a.absent():
			return 1
		case !a.passes():
			return 2
		}
		return 3
	}
	return results[slices.MaxFunc(addresses, func(a, b string) int { return rank(results[a]) - rank(results[b]) })]
}

func (a probeResult) absent() bool { return a.kind == unreachable || a.kind == late }
