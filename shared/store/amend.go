package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// amendTimeout bounds an amendment with all its attempts.
const amendTimeout = 20 * time.Second

// Pauses between attempts to amend a history; a random part of each is waited.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 300 * time.Millisecond
)

// head is an app with its current revision.
type head struct {
	ref     app.Ref
	doc     appDoc
	version time.Time       // of the app's document
	current deploy.Revision // zero before the first
}

// amendment is what shall be written, in one commit.
type amendment struct {
	app  []firestore.Update // of the app's document
	more []func(*firestore.Transaction) error
}

func (m *amendment) set(ref *firestore.DocumentRef, d any) {
	m.more = append(m.more, func(tx *firestore.Transaction) error { return tx.Set(ref, d) })
}

func (m *amendment) create(ref *firestore.DocumentRef, d any) {
	m.more = append(m.more, func(tx *firestore.Transaction) error { return tx.Create(ref, d) })
}

func (m *amendment) delete(ref *firestore.DocumentRef) {
	m.more = append(m.more, func(tx *firestore.Transaction) error { return tx.Delete(ref) })
}

// write writes all but the app's own document.
func (m *amendment) write(tx *firestore.Transaction) error {
	for _, write := range m.more {
		if err := write(tx); err != nil {
			return err
		}
	}
	return nil
}

// amend changes an app's revisions and builds in one commit. f is given the app with
// its current revision and says what to write; it runs again when another commit
// came between. try counts from 1.
//
// It is no locking transaction: those of many writers on one document would wait for
// each other. Everything is read without locks, the app's document first, and the
// commit is bound to the version of that document. Every amendment changes the
// document, if only a counter that nobody reads, so whatever was read is still true
// when the commit goes through.
func (s *Store) amend(ctx context.Context, ref app.Ref, f func(ctx context.Context, h head, m *amendment, try int) error) error {
	ctx, cancel := context.WithTimeout(ctx, amendTimeout)
	defer cancel()
	give, ok := s.turns.take(ctx, s.appRef(ref).Path)
	if !ok {
		return problem.Of(problem.Unavailable).Because(ctx.Err())
	}
	defer give()
	pause := firstPause
	for try := 1; ; try++ {
		h, err := s.head(ctx, ref)
		if err != nil {
			return err
		}
		m := &amendment{app: []firestore.Update{{Path: "amended", Value: firestore.Increment(1)}}}
		if err := f(ctx, h, m, try); err != nil {
			return err
		}
		if len(m.more) == 0 {
			return nil
		}
		if err = s.commit(ctx, h, m); !overtaken(err) {
			return known(err, "app")
		}
		if !wait(ctx, rand.N(pause)) { //nolint:gosec // spreads tries, protects nothing
			return problem.Of(problem.Conflict).Because(err)
		}
		pause = min(2*pause, maxPause)
	}
}

// head reads an app with its current revision. Problem: not_found.
func (s *Store) head(ctx context.Context, ref app.Ref) (head, error) {
	h := head{ref: ref}
	snap, err := s.appRef(ref).Get(ctx)
	if err != nil {
		return head{}, fmt.Errorf("get %s: %w", ref, known(err, "app"))
	}
	if err := snap.DataTo(&h.doc); err != nil {
		return head{}, fmt.Errorf("read %s: %w", ref, err)
	}
	h.version = snap.UpdateTime
	if h.doc.Revision == 0 {
		return h, nil
	}
	d, err := get[revisionDoc](ctx, s.revisionRef(ref, h.doc.Revision), "revision")
	if problem.Is(err, problem.NotFound) { // the app is being deleted, which begins with its history
		h.current = deploy.First(h.doc.app())
		return h, nil
	}
	if err != nil {
		return head{}, err
	}
	h.current = d.revision()
	return h, nil
}

func (s *Store) commit(ctx context.Context, h head, m *amendment) error {
	return s.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		if err := tx.Update(s.appRef(h.ref), m.app, firestore.LastUpdateTime(h.version)); err != nil {
			return err
		}
		return m.write(tx)
	}, firestore.MaxAttempts(1))
}

// overtaken tells whether a commit failed because another one came between.
func overtaken(err error) bool {
	switch status.Code(err) { //nolint:exhaustive // the rest is no lost race
	case codes.Aborted, codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists:
		return true
	}
	return false
}

// wait waits unless ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
