package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// The bounds below keep the number of an environment's usable keys at or below its limit. Only
// creations add usable keys: a revoked key stays revoked.
//
//  1. A creation that counts during its transaction first reads the environment's document in
//     it. If it counts limit - keysAtOnce keys or more, it also writes that document. Two such
//     creations conflict, so the second one counts the key of the first one.
//  2. Other creations do not write it. They have counted fewer keys. A count before the
//     transaction starts with a read of the document's version, which the transaction compares.
//  3. Consider the last time at which fewer than limit - keysAtOnce keys exist. Every count that
//     starts later leads to a write. A later commit without a write uses an earlier count.
//  4. A process has one count at a time. It allows keysPerCount creations, including those in
//     progress at its start. So at most keyProcesses * keysPerCount = 400 commits without a write
//     remain.
//  5. The first write ends them: their versions differ, or their transactions conflict. The
//     environment then has at most limit - keysAtOnce + 400 keys. Later creations write one after
//     the other, and their counts are exact.
//
// A count is not part of a transaction: the lock on its query would delay all environments. The
// other 100 keys of keysAtOnce are for commits that take effect after their call has ended.
//
// keyProcesses is the maximum number of processes that create keys, including those that a rollout
// replaces. The chart allows 15 replicas and one more in a rollout, or 8 pods of each of two
// Knative revisions.
const (
	keysAtOnce   = 500
	keyProcesses = 16
	keysPerCount = 25
)

const (
	keysInProgress = 10               // concurrent creations per process and environment
	countReuse     = time.Second      // maximum age of a count, so that revocations take effect
	slotWait       = 20 * time.Second // longest wait of a creation before its transaction
)

type countPlace int

const (
	countAgain  countPlace = iota // before the transaction, then decide again
	countInside                   // during the transaction
	countReused                   // not at all: the current count is sufficient
)

// placeOfCount decides when to count. age is the age of the process's current count, and own is the
// number of creations that already use it.
func placeOfCount(keys, own int, age time.Duration, limit int) countPlace {
	far := limit - keysAtOnce
	switch {
	case far <= 0:
		return countInside
	case own >= keysPerCount || age >= countReuse:
		return countAgain
	case keys+own >= far:
		return countInside
	}
	return countReused
}

type keyCounts struct {
	mu sync.Mutex
	of map[string]*keyCount
}

type keyCount struct {
	users      int           // creations that wait or are in progress; guarded by keyCounts.mu
	turn       chan struct{} // held by the creation being admitted, which owns the fields below
	inProgress chan struct{}

	version time.Time // of the environment's document, read before the count
	keys    int
	own     int // creations admitted since at, and those in progress then
	at      time.Time
}

// enter returns an environment's count. The caller must call forget.
func (m *keyCounts) enter(namespace string, now time.Time) (c *keyCount, forget func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*keyCount{}
	}
	c = m.of[namespace]
	if c == nil {
		maps.DeleteFunc(m.of, func(_ string, c *keyCount) bool { return c.users == 0 && now.Sub(c.at) >= countReuse })
		c = &keyCount{turn: make(chan struct{}, 1), inProgress: make(chan struct{}, keysInProgress)}
		m.of[namespace] = c
	}
	c.users++
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		c.users--
	}
}

type counter func(context.Context) (version time.Time, keys int, err error)

// admit waits until fewer than keysInProgress creations are in progress, and counts if necessary. If
// it returns a zero version, the caller must count during the transaction. The caller must free
// inProgress if err is nil.
func (c *keyCount) admit(ctx context.Context, limit int, now func() time.Time, count counter) (version time.Time, err error) {
	if err := acquire(ctx, c.turn); err != nil {
		return version, err
	}
	defer func() { <-c.turn }()
	if err := acquire(ctx, c.inProgress); err != nil {
		return version, err
	}
	place := placeOfCount(c.keys, c.own, now().Sub(c.at), limit)
	if place == countAgain {
		next := keyCount{at: now(), own: len(c.inProgress) - 1}
		if next.version, next.keys, err = count(ctx); err != nil {
			<-c.inProgress
			return version, err
		}
		c.version, c.keys, c.own, c.at = next.version, next.keys, next.own, next.at
		place = placeOfCount(c.keys, c.own, 0, limit)
	}
	c.own++
	if place == countReused {
		version = c.version
	}
	return version, nil
}

func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return problem.FromCode(problem.Unavailable).WithCause(ctx.Err())
	}
}

// admitKey is [keyCount.admit] for an environment. The caller must call leave once the creation has
// ended.
func (s *Store) admitKey(ctx context.Context, namespace string, limit int) (version time.Time, leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	c, forget := s.keyCounts.enter(namespace, s.now())
	version, err = c.admit(ctx, limit, s.now, func(ctx context.Context) (time.Time, int, error) {
		version, err := get(ctx, s.environments().Doc(namespace), "environment", versionOf)
		if err != nil {
			return time.Time{}, 0, err
		}
		n, err := s.countKeys(ctx, namespace)
		return version, n, err
	})
	if err != nil {
		forget()
		return time.Time{}, nil, err
	}
	return version, func() { <-c.inProgress; forget() }, nil
}

// commitBelow commits a creation. Creations that count during their transaction run one at a time.
func (s *Store) commitBelow(ctx context.Context, op, namespace string, limit int, issue func(room change) change) (done, error) {
	if limit == 0 {
		return s.commit(ctx, op, issue(func(context.Context, fire.Tx, *batch) error { return nil }))
	}
	version, leave, err := s.admitKey(ctx, namespace, limit)
	if err != nil {
		return done{}, fmt.Errorf("%s: %w", op, err)
	}
	defer leave()
	if !version.IsZero() {
		made, err := s.commit(ctx, op, issue(func(_ context.Context, tx fire.Tx, _ *batch) error {
			return s.checkVersion(tx, namespace, version)
		}))
		if !errors.Is(err, errCountOutdated) {
			return made, err
		}
	}
	return s.commitSerially(ctx, op, s.environments().Doc(namespace), issue(func(ctx context.Context, tx fire.Tx, b *batch) error {
		return s.roomForKey(ctx, tx, b, namespace, limit)
	}))
}

func versionOf(doc fire.Doc) (time.Time, error) { return doc.Updated, nil }

func (s *Store) countKeys(ctx context.Context, namespace string) (int, error) {
	return count(ctx, s.keys().Where("namespace", "==", namespace).Where("status", "in", apikey.Usable()))
}

func count(ctx context.Context, q fire.Query) (int, error) {
	n, err := q.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count documents: %w", problemOf(err, "document"))
	}
	return n, nil
}

var errCountOutdated = errors.New("the environment's document changed since its keys were counted")

func (s *Store) checkVersion(tx fire.Tx, namespace string, version time.Time) error {
	now, err := txGet(tx, s.environments().Doc(namespace), "environment", versionOf)
	if err == nil && !now.Equal(version) {
		return errCountOutdated
	}
	return err
}

// roomForKey counts keys in a transaction that first reads the environment's document, and writes
// it near the limit.
func (s *Store) roomForKey(ctx context.Context, tx fire.Tx, b *batch, namespace string, limit int) error {
	if _, err := s.txEnvironment(tx, namespace); err != nil {
		return err
	}
	n, err := s.countKeys(ctx, namespace)
	switch {
	case err != nil:
		return err
	case n >= limit:
		return problem.New(problem.TooManyKeys, "The environment has reached its limit of %d keys. Revoke unused keys.", limit)
	case n >= limit-keysAtOnce:
		b.Update(s.environments().Doc(namespace), fire.Fields{"full_at": fire.Now})
	}
	return nil
}
