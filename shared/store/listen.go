package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// ErrListenerReset is in the error chain if the receiver's data may be incomplete. After other errors, the
// data is valid.
var ErrListenerReset = fire.ErrListenerReset

// DocChange is a change of one document.
type DocChange[T any] struct {
	ID    string
	Gone  bool // deleted, or unreadable because of Err
	Err   error
	Value T
}

// Batch contains all changes since the previous batch, up to a consistent state.
type Batch[T any] struct {
	// Reset means that Changes replace all data, as in the first batch of a listener.
	Reset    bool
	Changes  []DocChange[T] // in order of receipt; IDs may repeat
	Canaries []Canary
	Departed []string

	// At is the time of that state, by the store's clock: no earlier commit is missing. It is zero
	// if unknown.
	At time.Time
	// Lag is the duration for which a commit from before At may still follow. The emulator makes
	// commits visible after their commit time.
	Lag time.Duration
	// Stored is the number of readable documents by the store's count; nil if unknown.
	Stored *int
}

// Verify returns [ErrListenerReset] if held, the receiver's number of documents, differs from the store's
// count. The listener has then missed a change.
func (b Batch[T]) Verify(held int) error {
	if b.Stored != nil && *b.Stored != held {
		return fmt.Errorf("%w: %d documents held, %d stored", ErrListenerReset, held, *b.Stored)
	}
	return nil
}

// Receiver processes the batches of a listener.
type Receiver[T any] interface {
	// Receive processes a batch. It must call [Batch.Verify] first. An error ends the listener.
	Receive(b Batch[T]) error
	// Heard is called for every message of the stream.
	Heard()
}

// Feed listens to collections and delivers changes in commit order.
type Feed struct{ feed fire.Feed }

// NewFeed returns a feed of a project's database. Each listener opens its own connection.
func NewFeed(project string) *Feed { return &Feed{fire.NewFeed(project)} }

// listen passes batches to the receiver until ctx or the stream ends, or the receiver returns an
// error. It never returns nil.
func listen[T any](ctx context.Context, f *Feed, s fire.Selection, decode decoder[T], to Receiver[T]) error {
	return f.feed.Listen(ctx, s, newListener(f.feed.Lag, decode, to))
}

type decoder[T any] func(id string, r *fire.FieldReader) (T, error)

// listener collects changes into batches.
type listener[T any] struct {
	Receiver[T]

	decode   decoder[T]
	lag      time.Duration
	batch    Batch[T]
	excluded map[string]bool // IDs of canaries and unreadable documents, which the receiver does not store
}

func newListener[T any](lag time.Duration, decode decoder[T], to Receiver[T]) *listener[T] {
	return &listener[T]{Receiver: to, decode: decode, lag: lag, excluded: map[string]bool{}}
}

func (l *listener[T]) Changed(id string, r *fire.FieldReader) {
	if isCanary(id) {
		l.excluded[id] = true
		if c, err := parseCanary(id, r); err == nil {
			l.batch.Canaries = append(l.batch.Canaries, c)
		}
		return
	}
	v, err := l.decode(id, r)
	if err != nil {
		l.excluded[id] = true
	} else {
		delete(l.excluded, id)
	}
	l.batch.Changes = append(l.batch.Changes, DocChange[T]{ID: id, Gone: err != nil, Err: err, Value: v})
}

func (l *listener[T]) Gone(id string) {
	delete(l.excluded, id)
	if isCanary(id) {
		l.batch.Departed = append(l.batch.Departed, strings.TrimPrefix(id, canaryMark))
		return
	}
	l.batch.Changes = append(l.batch.Changes, DocChange[T]{ID: id, Gone: true})
}

func (l *listener[T]) Discard() {
	l.batch = Batch[T]{}
	clear(l.excluded)
}

func (l *listener[T]) Complete(s fire.Snapshot) error {
	b := l.batch
	l.batch = Batch[T]{}
	b.Reset, b.At, b.Lag = s.Reset, s.At, l.lag
	if s.Count != nil {
		readable := *s.Count - len(l.excluded)
		b.Stored = &readable
	}
	return l.Receive(b)
}
