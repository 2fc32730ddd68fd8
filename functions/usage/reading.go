package usage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
)

// sized is the result of a read of keys.
type sized interface {
	size() int // number of keys in memory
}

// readings caches reads by name.
type readings[T sized] struct {
	life  time.Duration
	turns chan struct{} // semaphore of reads

	mu     sync.Mutex // guards cached; not held during reads
	cached map[string]*cachedReading[T]
}

type cachedReading[T sized] struct {
	reading *usagequery.Shared[T]
	used    time.Time // last use
	keys    int       // in the last read
}

func newReadings[T sized](life time.Duration, atOnce int) *readings[T] {
	return &readings[T]{life: life, turns: make(chan struct{}, atOnce), cached: map[string]*cachedReading[T]{}}
}

// The limits of readings. Each concurrent read uses memory for all its keys.
const (
	reportsAtOnce   = 2
	forecastsAtOnce = 1
	maxCachedKeys   = 20_000          // in all readings of a cache
	maxUnused       = 5 * time.Minute // for which an unused reading is cached
)

// get returns a reading that read would return without loading it.
func (all *readings[T]) get(name string, now time.Time) (read T, ok bool) {
	return all.of(name, now).Cached(now)
}

func (all *readings[T]) read(ctx context.Context, name string, now func() time.Time, load func(context.Context, time.Time) (T, error)) (T, error) {
	return all.of(name, now()).Read(ctx, now, func(ctx context.Context, at time.Time) (T, time.Duration, error) {
		var none T
		select {
		case all.turns <- struct{}{}:
			defer func() { <-all.turns }()
		case <-ctx.Done():
			return none, 0, problem.FromCode(problem.Unavailable).WithCause(ctx.Err())
		}
		read, err := load(ctx, at)
		if err != nil {
			return none, 0, err
		}
		all.bound(name, read.size())
		return read, all.life + time.Duration(read.size()/100)*time.Second, nil
	})
}

// bound records the number of keys of a reading, and removes the least recently used readings until
// at most maxCachedKeys keys are cached.
func (all *readings[T]) bound(name string, keys int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if k := all.cached[name]; k != nil {
		k.keys = keys
	}
	names := slices.SortedFunc(maps.Keys(all.cached), func(a, b string) int { return all.cached[b].used.Compare(all.cached[a].used) })
	sum := keys
	for _, other := range names {
		if other == name {
			continue
		}
		if sum += all.cached[other].keys; sum > maxCachedKeys {
			delete(all.cached, other)
		}
	}
}

func (all *readings[T]) of(name string, now time.Time) *usagequery.Shared[T] {
	all.mu.Lock()
	defer all.mu.Unlock()
	for other, k := range all.cached {
		if now.Sub(k.used) > maxUnused {
			delete(all.cached, other)
		}
	}
	k := all.cached[name]
	if k == nil {
		k = &cachedReading[T]{reading: usagequery.NewShared[T]()}
		all.cached[name] = k
	}
	k.used = now
	return k.reading
}
