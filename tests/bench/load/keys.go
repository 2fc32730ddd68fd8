// Package load sends requests at the maximum rate over persistent connections.
package load

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
)

// Key is a stored key and its full text.
type Key struct {
	Full   apikey.Full
	Stored apikey.Key
}

// Owners of the keys.
const (
	Namespace = "shop-prod"
	App       = "hello"
	planID    = "plan-bench"
)

// Plan returns a plan that one key does not exhaust.
func Plan() plan.Plan {
	return plan.Plan{ID: planID, Namespace: Namespace, Limits: plan.Limits{Rate: 100_000, Burst: 1_000_000, Quota: 1_000_000_000_000, Period: plan.Month}}
}

// Keys returns n keys, the same in every process.
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
