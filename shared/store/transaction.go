package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
)

const optimisticTimeout = 20 * time.Second

// A retry waits for a random time. Its bound doubles from firstPause to maxPause.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 300 * time.Millisecond
)

// batch collects the writes of one commit. Firestore requires all reads before the first write.
type batch struct {
	what   string
	app    []firestore.Update // updates of the app's document in an optimistic update
	record string
	plan   time.Time // update time of the last plan read, if any
	writes []func(*firestore.Transaction) error
}

func (b *batch) set(ref *firestore.DocumentRef, d any) {
	b.writes = append(b.writes, func(tx *firestore.Transaction) error { return tx.Set(ref, d) })
}

// change writes the fields that differ. It preserves fields of newer releases.
func (b *batch) change(ref *firestore.DocumentRef, was, is any) {
	if fields := changedFields(was, is); len(fields) > 0 {
		b.update(ref, fields...)
	}
}

func changedFields(was, is any) (changed []firestore.Update) {
	before, after := reflect.ValueOf(was), reflect.ValueOf(is)
	for _, field := range reflect.VisibleFields(after.Type()) {
		name, options, _ := strings.Cut(field.Tag.Get("firestore"), ",")
		if field.Anonymous || name == "-" {
			continue
		}
		value := after.FieldByIndex(field.Index)
		switch {
		case reflect.DeepEqual(before.FieldByIndex(field.Index).Interface(), value.Interface()):
		case options == "omitempty" && value.IsZero():
			changed = append(changed, firestore.Update{FieldPath: firestore.FieldPath{name}, Value: firestore.Delete})
		default:
			changed = append(changed, firestore.Update{FieldPath: firestore.FieldPath{name}, Value: value.Interface()})
		}
	}
	return changed
}

func (b *batch) create(ref *firestore.DocumentRef, d any) {
	b.writes = append(b.writes, func(tx *firestore.Transaction) error { return tx.Create(ref, d) })
}

func (b *batch) update(ref *firestore.DocumentRef, fields ...firestore.Update) {
	b.writes = append(b.writes, func(tx *firestore.Transaction) error { return tx.Update(ref, fields) })
}

func (b *batch) delete(refs ...*firestore.DocumentRef) {
	for _, ref := range refs {
		b.writes = append(b.writes, func(tx *firestore.Transaction) error { return tx.Delete(ref) })
	}
}

func (b *batch) write(tx *firestore.Transaction) error {
	for _, write := range b.writes {
		if err := write(tx); err != nil {
			return err
		}
	}
	return nil
}

// change reads in a transaction and adds writes to b.
type change func(ctx context.Context, tx *firestore.Transaction, b *batch) error

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
	var response firestore.CommitResponse
	err := s.client.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		b = batch{}
		if err := f(ctx, tx, &b); err != nil {
			return err
		}
		return b.write(tx)
	}, firestore.WithCommitResponseTo(&response))
	if at, ok := s.findCommit(ctx, &b, err); ok {
		return done{b, at}, nil
	}
	var p *problem.Error
	if err != nil && !errors.As(err, &p) {
		err = problemOf(err, cmp.Or(b.what, "document"))
	}
	if err != nil {
		return done{}, fmt.Errorf("%s: %w", op, err)
	}
	return done{b, response.CommitTime()}, nil
}

// findCommit looks for a commit whose result is unknown, because the connection broke or the store
// canceled the call. It returns the commit's time if the commit's audit record exists. If the record
// is missing, the commit may still follow.
func (s *Store) findCommit(ctx context.Context, b *batch, err error) (at time.Time, ok bool) {
	code := status.Code(err)
	if err == nil || b.record == "" || code != codes.Canceled && code != codes.Unavailable && !lostTransaction(err) {
		return time.Time{}, false
	}
	snap, err := s.records().Doc(b.record).Get(ctx)
	if err != nil {
		return time.Time{}, false
	}
	return snap.CreateTime, true
}

// transactSerially runs changes of a document one at a time in this process.
func (s *Store) transactSerially(ctx context.Context, op string, ref *firestore.DocumentRef, f change) error {
	_, err := s.commitSerially(ctx, op, ref, f)
	return err
}

func (s *Store) commitSerially(ctx context.Context, op string, ref *firestore.DocumentRef, f change) (done, error) {
	waiting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, ok := s.locks.lock(waiting, ref.Path)
	if !ok {
		return done{}, fmt.Errorf("%s: %w", op, problem.FromCode(problem.Unavailable).WithCause(waiting.Err()))
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
	unlock, ok := s.locks.lock(ctx, s.appRef(ref).Path)
	if !ok {
		return fmt.Errorf("%s: %w", op, problem.FromCode(problem.Unavailable).WithCause(ctx.Err()))
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
	b := &batch{app: []firestore.Update{{Path: "amended", Value: firestore.Increment(1)}}}
	if err := f(ctx, c, b, try); err != nil || len(b.writes) == 0 {
		return false, err
	}
	err = s.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		if err := tx.Update(s.appRef(c.ref), b.app, firestore.LastUpdateTime(c.version)); err != nil {
			return err
		}
		return b.write(tx)
	}, firestore.MaxAttempts(1))
	if _, ok := s.findCommit(ctx, b, err); ok {
		return false, nil
	}
	switch status.Code(err) { //nolint:exhaustive // all other codes are not lost races
	case codes.Aborted, codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists:
		return true, err
	}
	return false, problemOf(err, "app")
}

func (s *Store) current(ctx context.Context, ref app.Ref) (current, error) {
	c, err := get(ctx, s.appRef(ref), "app", func(snap *firestore.DocumentSnapshot) (current, error) {
		d, err := shape[appDoc](snap)
		return current{ref: ref, doc: d, version: snap.UpdateTime}, err
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

// keyedMutex serializes a document's changes within this process. This avoids lost races, after
// which the library waits for seconds.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	held chan struct{}
	open int // holders and waiters
}

// lock reports false if ctx ends first.
func (m *keyedMutex) lock(ctx context.Context, doc string) (unlock func(), ok bool) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = map[string]*keyLock{}
	}
	l := m.locks[doc]
	if l == nil {
		l = &keyLock{held: make(chan struct{}, 1)}
		m.locks[doc] = l
	}
	l.open++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.open--; l.open == 0 {
			delete(m.locks, doc)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}
