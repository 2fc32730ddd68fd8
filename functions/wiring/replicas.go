package wiring

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxReplicas bounds the addresses of the ingress. Before more of them no gate is
	// called engaged: those that were left out might not have it.
	maxReplicas = 16

	// maxLookups bounds how often the ingress's host is resolved for one answer.
	maxLookups = 3
)

// replicas are those of the ingress, by their addresses of this moment: each of a headless
// Service's pods has its own.
type replicas struct {
	lookup func(context.Context) ([]string, error)
	one    func(ctx context.Context, address string) answer
}

// ask asks every replica, all at once. If all prove what is sought it gives one of their
// answers, else one that does not.
//
// Replicas come and go meanwhile. One that gives no answer counts as long as the ingress's
// host resolves to it; when it turns out to be gone, those that are there instead are asked.
// One that comes after the look-up is found by the next proof.
func (r replicas) ask(ctx context.Context, sought proof) answer {
	asked, found := map[string]answer{}, answer{kind: unreachable}
	for range maxLookups {
		addresses, err := r.lookup(ctx)
		slices.Sort(addresses)
		addresses = slices.Compact(addresses)
		switch {
		case err != nil || len(addresses) == 0:
			return answer{kind: unreachable}
		case len(addresses) > maxReplicas:
			return answer{kind: tooMany}
		}
		more := r.askThose(ctx, asked, addresses)
		found = verdict(asked, addresses, sought)
		if found.proves(sought) || !found.absent() || !more {
			return found
		}
	}
	return found
}

// askThose asks the addresses that were not asked before, notes their answers, and tells
// whether there were any.
func (r replicas) askThose(ctx context.Context, asked map[string]answer, addresses []string) bool {
	addresses = slices.DeleteFunc(slices.Clone(addresses), func(address string) bool { _, known := asked[address]; return known })
	answers := make([]answer, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = r.one(ctx, address) })
	}
	all.Wait()
	for i, address := range addresses {
		asked[address] = answers[i]
	}
	return len(addresses) > 0
}

// verdict is the answer of all addresses together: one by which a request gets past the
// gate if there is any, or else another that does not prove what is sought, one that is
// there before one that is not.
func verdict(asked map[string]answer, addresses []string, sought proof) answer {
	rank := func(a answer) int {
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
	return asked[slices.MaxFunc(addresses, func(a, b string) int { return rank(asked[a]) - rank(asked[b]) })]
}

// absent tells whether nobody has answered, so that there may be no replica there any more.
func (a answer) absent() bool { return a.kind == unreachable || a.kind == late }
