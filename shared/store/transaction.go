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
	"github.com/sluicegate/sluice/shared/trace"
)

// optimisticTimeout bounds an optimistic update with all its attempts.
const optimisticTimeout = 20 * time.Second

// Pauses between attempts at an optimistic update; a random part of each is waited.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 300 * time.Millisecond
)

// batch is what a change writes, in one commit. A change says what to write while it
// reads, and nothing is written before it has read everything, as Firestore demands.
type batch struct {
	what   string             // is created, in a message; "" is a document
	app    []firestore.Update // of the app's own document, in an optimistic update
	record string             // the id of the change's record; "" without one
	plan   time.Time          // when the plan that was read last changed; zero without one
	writes []func(*firestore.Transaction) error
}

func (b *batch) set(ref *firestore.DocumentRef, d any) {
	b.writes = append(b.writes, func(tx *firestore.Transaction) error { return tx.Set(ref, d) })
}

// change writes the fields of a document that is and was differ in. It leaves alone the
// fields that this release does not know: a newer one may have written them.
func (b *batch) change(ref *firestore.DocumentRef, was, is any) {
	if fields := changedFields(was, is); len(fields) > 0 {
		b.update(ref, fields...)
	}
}

// changedFields compares two values of one struct type whose fields have firestore tags. The
// fields of an embedded struct count as its own.
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

// write writes all but the app's own document.
func (b *batch) write(tx *firestore.Transaction) error {
	for _, write := range b.writes {
		if err := write(tx); err != nil {
			return err
		}
	}
	return nil
}

// change reads in a transaction and says in b what to write; it may run more than once.
type change func(ctx context.Context, tx *firestore.Transaction, b *batch) error

// transact makes a change in one transaction. An error of f that holds a problem comes out
// as that; op says in the error what was tried, e.g. "create plan plan-starter".
func (s *Store) transact(ctx context.Context, op string, f change) error {
	_, err := s.commit(ctx, op, f)
	return err
}

// done is a change that was made: what was written, and when, by the store's clock.
type done struct {
	batch

	at time.Time
}

// commit is transact for who asks when it was.
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
	if at, ok := s.made(ctx, &b, err); ok {
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

// made tells whether a commit was made, and when, of which it is not clear what became of it:
// the connection broke, or the store itself has cancelled the call. A change's record has an
// id that nobody else has, and is there if the rest is. One that is not there may come yet.
func (s *Store) made(ctx context.Context, b *batch, err error) (at time.Time, ok bool) {
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

// transactAlone is transact for a change of one document, one after the other in this
// process.
func (s *Store) transactAlone(ctx context.Context, op string, ref *firestore.DocumentRef, f change) error {
	_, err := s.commitAlone(ctx, op, ref, f)
	return err
}

// commitAlone is transactAlone for who asks when it was.
func (s *Store) commitAlone(ctx context.Context, op string, ref *firestore.DocumentRef, f change) (done, error) {
	waiting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, ok := s.locks.lock(waiting, ref.Path)
	if !ok {
		return done{}, fmt.Errorf("%s: %w", op, problem.Of(problem.Unavailable).Because(waiting.Err()))
	}
	defer unlock()
	return s.commit(ctx, op, f)
}

// current is an app with its current revision.
type current struct {
	ref      app.Ref
	doc      appDoc
	version  time.Time       // of the app's document
	revision deploy.Revision // zero before the first
}

// optimistic changes an app's revisions and builds in one commit. f is given the app with
// its current revision and says in b what to write; it runs again when another commit came
// between. try counts from 1.
//
// It is no locking transaction: those of many writers on one document would wait for
// each other. Everything is read without locks, the app's document first, and the
// commit is bound to the version of that document. Every such update changes the
// document, if only a counter that nobody reads, so whatever was read is still true
// when the commit goes through.
func (s *Store) optimistic(ctx context.Context, op string, ref app.Ref, f func(ctx context.Context, c current, b *batch, try int) error) error {
	ctx, cancel := context.WithTimeout(ctx, optimisticTimeout)
	defer cancel()
	unlock, ok := s.locks.lock(ctx, s.appRef(ref).Path)
	if !ok {
		return fmt.Errorf("%s: %w", op, problem.Of(problem.Unavailable).Because(ctx.Err()))
	}
	defer unlock()
	pause := firstPause
	for try := 1; ; try++ {
		conflict, err := s.tryOptimistic(ctx, ref, try, f)
		if conflict && trace.Sleep(ctx, rand.N(pause)) { //nolint:gosec // spreads tries, protects nothing
			pause = min(2*pause, maxPause)
			continue
		}
		if conflict {
			err = problem.Of(problem.Conflict).Because(err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		return nil
	}
}

// tryOptimistic tells whether its error is that another commit came between.
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
	if _, ok := s.made(ctx, b, err); ok {
		return false, nil
	}
	switch status.Code(err) { //nolint:exhaustive // the rest is no lost race
	case codes.Aborted, codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists:
		return true, err
	}
	return false, problemOf(err, "app")
}

// current reads an app with its current revision. Problem: not_found.
func (s *Store) current(ctx context.Context, ref app.Ref) (current, error) {
	c, err := get(ctx, s.appRef(ref), "app", func(snap *firestore.DocumentSnapshot) (current, error) {
		d, err := shape[appDoc](snap)
		return current{ref: ref, doc: d, version: snap.UpdateTime}, err
	})
	if err != nil || c.doc.Revision == 0 {
		return c, err
	}
	c.revision, err = s.Deployment(ctx, ref, c.doc.Revision)
	if problem.Is(err, problem.NotFound) { // the app is being deleted, which begins with its history
		c.revision, err = deploy.First(c.doc.value()), nil
	}
	return c, err
}

// keyedMutex lets one change of a document at a time through in this process. That only
// saves attempts that would lose their race, after which the library waits for
// seconds; other processes are not seen.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyLock // by the document's path
}

type keyLock struct {
	held chan struct{} // has room for the one who holds it
	open int           // that one and those who wait
}

// lock waits for a document's lock. It tells whether ctx has not ended before.
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
