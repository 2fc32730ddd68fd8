package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

const optimisticTimeout = 20 * time.Second

// A retry waits for a random time. Its bound doubles from firstPause to maxPause.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 300 * time.Millisecond
)

// batch collects the writes of one commit.
type batch struct {
	fire.Batch

	what   string
	app    fire.Fields // updates of the app's document in an optimistic update
	record string
	plan   time.Time // update time of the last plan read, if any
}

// change reads in a transaction and adds writes to b.
type change func(ctx context.Context, tx fire.Tx, b *batch) error

// transact runs f and its writes in one transaction. op describes it, such as "create plan
// plan-starter".
func (s *Store) transact(ctx context.Context, op string, f change) error {
	_, err := s.commit(ctx, op, f)
	return err
}

type done struct {
	batch

	at time.Time
}

func (s *Store) commit(ctx context.Context, op string, f change) (done, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var b batch
	at, err := s.db.Transact(ctx, fire.Tries, func(ctx context.Context, tx fire.Tx) (fire.Batch, error) {
		b = batch{app: fire.Fields{}}
		err := f(ctx, tx, &b)
		return b.Batch, err
	})
	if found, ok := s.findCommit(ctx, &b, err); ok {
		return done{b, found}, nil
	}
	if err != nil {
		return done{}, fmt.Errorf("%s: %w", op, problemOf(err, cmp.Or(b.what, "document")))
	}
	return done{b, at}, nil
}

// findCommit looks for a commit whose result is unknown, because the connection broke or the store
// canceled the call. It returns the commit's time if the commit's audit record exists. If the record
// is missing, the commit may still follow.
func (s *Store) findCommit(ctx context.Context, b *batch, err error) (at time.Time, ok bool) {
	if b.record == "" || !errors.Is(err, fire.ErrUnclear) {
		return time.Time{}, false
	}
	doc, err := s.records().Doc(b.record).Get(ctx)
	return doc.Created, err == nil
}

// transactSerially runs changes of a document one at a time in this process.
func (s *Store) transactSerially(ctx context.Context, op string, ref fire.Ref, f change) error {
	_, err := s.commitSerially(ctx, op, ref, f)
	return err
}

func (s *Store) commitSerially(ctx context.Context, op string, ref fire.Ref, f change) (done, error) {
	waiting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := s.db.Lock(waiting, ref)
	if err != nil {
		return done{}, fmt.Errorf("%s: %w", op, problemOf(err, "document"))
	}
	defer unlock()
	return s.commit(ctx, op, f)
}

type current struct {
	ref      app.Ref
	doc      appDoc
	version  time.Time
	revision deploy.Revision
}

// optimistic changes an app's revisions and builds in one commit. f runs again if another commit
// intervenes; try counts from 1.
//
// In a locking transaction, concurrent writers would wait for each other. Instead, optimistic reads
// without locks, beginning with the app's document, and commits only if that document is unchanged.
// Every such update changes the document, so all data read is still current.
func (s *Store) optimistic(ctx context.Context, op string, ref app.Ref, f func(ctx context.Context, c current, b *batch, try int) error) error {
	ctx, cancel := context.WithTimeout(ctx, optimisticTimeout)
	defer cancel()
	unlock, err := s.db.Lock(ctx, s.appRef(ref))
	if err != nil {
		return fmt.Errorf("%s: %w", op, problemOf(err, "app"))
	}
	defer unlock()
	pause := firstPause
	for try := 1; ; try++ {
		conflict, err := s.tryOptimistic(ctx, ref, try, f)
		if conflict && reqctx.Sleep(ctx, rand.N(pause)) { //nolint:gosec // spreads retries; not for security
			pause = min(2*pause, maxPause)
			continue
		}
		if conflict {
			err = problem.FromCode(problem.Conflict).WithCause(err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
}

func (s *Store) tryOptimistic(ctx context.Context, ref app.Ref, try int, f func(ctx context.Context, c current, b *batch, try int) error) (conflict bool, err error) {
	c, err := s.current(ctx, ref)
	if err != nil {
		return false, err
	}
	b := &batch{app: fire.Fields{"amended": fire.Add(1)}}
	b.Update(s.appRef(c.ref), b.app, c.version)
	if err := f(ctx, c, b, try); err != nil || b.Len() == 1 {
		return false, err
	}
	_, err = s.db.Transact(ctx, 1, func(context.Context, fire.Tx) (fire.Batch, error) { return b.Batch, nil })
	if _, ok := s.findCommit(ctx, b, err); ok {
		return false, nil
	}
	if errors.Is(err, fire.ErrStale) || errors.Is(err, fire.ErrNotFound) || errors.Is(err, fire.ErrExists) {
		return true, err
	}
	return false, problemOf(err, "app")
}

func (s *Store) current(ctx context.Context, ref app.Ref) (current, error) {
	c, err := get(ctx, s.appRef(ref), "app", func(doc fire.Doc) (current, error) {
		d, err := shape[appDoc](doc)
		return current{ref: ref, doc: d, version: doc.Updated}, err
	})
	if err != nil || c.doc.Revision == 0 {
		return c, err
	}
	c.revision, err = s.Deployment(ctx, ref, c.doc.Revision)
	if problem.Is(err, problem.NotFound) { // the app is being deleted, its history first
		c.revision, err = deploy.First(c.doc.value()), nil
	}
	return c, err
}
