// Package load sends requests as fast as they are answered, over connections that
// stay open, and makes the keys that they carry.
package load

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// Key is one that the gate knows, and its full text.
type Key struct {
	Full   apikey.Full
	Stored apikey.Key
}

// Where the keys of a load belong.
const (
	Namespace = "shop-prod"
	App       = "hello"
	planID    = "plan-bench"
)

// Plan is what the keys of a load have: a rate and a quota that one key alone
// does not use up.
func Plan() plan.Plan {
	return plan.Plan{ID: planID, Namespace: Namespace, Limits: plan.Limits{Rate: 100_000, Burst: 1_000_000, Quota: 1_000_000_000_000, Period: plan.Month}}
}

// Keys makes n keys with a scope, a name and a plan: the same ones in every process,
// so that a load knows what its target holds.
func Keys(n int) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		random := rand.NewChaCha8([32]byte{1})
		seen := make(map[apikey.Prefix]bool, n)
		for len(seen) < n {
			k := next(random, len(seen))
			if seen[k.Stored.Prefix] {
				continue
			}
			seen[k.Stored.Prefix] = true
			if !yield(k) {
				return
			}
		}
	}
}

func next(random io.Reader, i int) Key {
	prefix, err := apikey.NewPrefix(random)
	if err != nil {
		panic(err) // ChaCha8 never fails
	}
	full, err := apikey.NewSecret(random, prefix)
	if err != nil {
		panic(err)
	}
	return Key{Full: full, Stored: apikey.Key{
		Prefix: prefix, Namespace: Namespace, Plan: planID, Apps: []string{App}, Name: fmt.Sprintf("Team %d", i),
		Status: apikey.Active, Secret: apikey.HashOf([]byte(full)),
	}}
}
