package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// targetID names the one target of a stream.
const targetID = 1

// emulatorLag is the [Batch.Lag] of the emulator. It dates a commit before it makes the
// documents visible, so a batch that it sends between the two lacks a commit from before
// its time. The commit followed within 77 ms on a machine that was busy with a build.
const emulatorLag = 150 * time.Millisecond

// errStartedOver ends a stream that starts over before its first batch is complete.
var errStartedOver = errors.New("the stream started over before its first batch was complete")

// ErrDoubt is in the chain of a listener's error when what was heard so far can
// no longer be trusted, rather than just the stream having ended.
var ErrDoubt = errors.New("what the listener heard is in doubt")

// Change is what happened to one document.
type Change[T any] struct {
	ID    string
	Gone  bool // deleted, or not readable as a T: Err says why
	Err   error
	Value T // unless Gone
}

// Batch is all that a listener has heard since the batch before, up to one
// moment at which the store says that it is complete and consistent.
type Batch[T any] struct {
	// Reset says that Changes are all that is listened to: what is not among them
	// does not exist. The first batch of a listener is one.
	Reset    bool
	Changes  []Change[T] // in the order heard; an id may come more than once
	Canaries []Canary    // those heard, see [Canary]
	Departed []string    // the replicas whose canaries were deleted

	// At is that moment, by the store's clock: every commit until then is in this batch
	// or in an earlier one. It is zero if the stream does not tell.
	At time.Time
	// Lag is how long after the batch a commit until At may still come: zero, except with
	// the emulator.
	Lag time.Duration
	// Stored is the number of readable documents by the store's count. It is nil if the
	// store sent no count.
	Stored *int
}

// Verify compares the number of documents that the receiver holds after the batch with the
// store's count. It returns [ErrDoubt] if they differ: the listener missed a change.
func (b Batch[T]) Verify(held int) error {
	if b.Stored != nil && *b.Stored != held {
		return fmt.Errorf("%w: %d documents held, %d stored", ErrDoubt, held, *b.Stored)
	}
	return nil
}

// Receiver takes in what a listener hears.
type Receiver[T any] interface {
	// Receive takes a batch. It calls [Batch.Verify] before it acts on the batch. An error
	// ends the listener.
	Receive(b Batch[T]) error
	// Heard is called for every message of the stream: a sign of life, also while
	// a large batch is still coming.
	Heard()
}

// Feed listens to collections as the checker needs it: every change, in commit
// order, nothing held in memory. It uses the generated Listen client: the
// library's Snapshots keep every document (about 3.4 KB each) and hide the
// moments at which a stream is consistent.
type Feed struct {
	database string        // "projects/P/databases/(default)"
	lag      time.Duration // see [Batch.Lag]
}

// NewFeed makes a feed of a Google Cloud project's default database. Each
// listener makes a connection of its own, so that a new one never inherits a
// dead connection from the one before.
func NewFeed(project string) *Feed {
	f := &Feed{database: "projects/" + project + "/databases/(default)"}
	if os.Getenv(emulatorVariable) != "" {
		f.lag = emulatorLag
	}
	return f
}

// listen hears all that a query finds and hands on each batch until ctx ends, the
// stream does, or the receiver returns an error. It never returns nil.
func listen[T any](ctx context.Context, f *Feed, q *pb.StructuredQuery, decode func(id string, f fields) (T, error), to Receiver[T]) error {
	return fmt.Errorf("listen to %s: %w", q.GetFrom()[0].GetCollectionId(), hearAll(ctx, f, q, decode, to))
}

func hearAll[T any](ctx context.Context, f *Feed, q *pb.StructuredQuery, decode func(id string, f fields) (T, error), to Receiver[T]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts, err := clientOptions(&watcher{})
	if err != nil {
		return err
	}
	client, err := apiv1.NewClient(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the stream's own error says more
	stream, err := client.Listen(metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", f.database))
	if err != nil {
		return err
	}
	if err := stream.Send(f.target(q)); err != nil {
		return err
	}
	l := listener[T]{decode: decode, reset: true, apart: map[string]bool{}}
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		to.Heard()
		complete, err := l.hear(res)
		if err != nil {
			return err
		}
		if !complete {
			continue
		}
		b := l.take()
		b.Lag = f.lag
		if err := to.Receive(b); err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
}

// all is the query for a whole collection.
func all(collection string) *pb.StructuredQuery {
	return &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: collection}}}
}

// allBut is the query for the documents of a collection whose status is another one than
// this. An emulator takes twice as long for a list of statuses.
func allBut(collection, status string) *pb.StructuredQuery {
	q := all(collection)
	q.Where = &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
		Field: &pb.StructuredQuery_FieldReference{FieldPath: "status"},
		Op:    pb.StructuredQuery_FieldFilter_NOT_EQUAL,
		Value: &pb.Value{ValueType: &pb.Value_StringValue{StringValue: status}},
	}}}
	return q
}

func (f *Feed) target(query *pb.StructuredQuery) *pb.ListenRequest {
	return &pb.ListenRequest{
		Database: f.database,
		TargetChange: &pb.ListenRequest_AddTarget{AddTarget: &pb.Target{
			TargetId: targetID,
			TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{
				Parent:    f.database + "/documents",
				QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: query},
			}},
		}},
	}
}

// listener gathers a stream's messages into batches. The protocol: document
// changes come in commit order; RESET says that everything will be sent anew;
// CURRENT that all from before the listener began has been sent; and a NO_CHANGE
// for no target in particular marks a consistent moment.
type listener[T any] struct {
	decode  func(id string, f fields) (T, error)
	batch   Batch[T]
	reset   bool // the batch under way replaces everything
	current bool
	whole   bool // the first batch is complete
	undated bool // the stream did not say when it looked up the batch's documents

	apart  map[string]bool // ids of canaries and unreadable documents: the receiver does not hold them
	filter *int            // how many documents the store sees, once it has said so
}

// hear takes one message in and tells whether the batch is complete.
func (l *listener[T]) hear(res *pb.ListenResponse) (complete bool, err error) {
	switch r := res.GetResponseType().(type) {
	case *pb.ListenResponse_TargetChange:
		return l.targetChange(r.TargetChange)
	case *pb.ListenResponse_DocumentChange:
		if len(r.DocumentChange.GetTargetIds()) == 0 {
			l.gone(r.DocumentChange.GetDocument().GetName())
		} else {
			l.changed(r.DocumentChange.GetDocument())
		}
	case *pb.ListenResponse_DocumentDelete:
		l.gone(r.DocumentDelete.GetDocument())
	case *pb.ListenResponse_DocumentRemove:
		l.gone(r.DocumentRemove.GetDocument())
	case *pb.ListenResponse_Filter:
		n := int(r.Filter.GetCount())
		l.filter = &n
	default:
		return false, fmt.Errorf("%w: unknown message %T", ErrDoubt, r)
	}
	return false, nil
}

func (l *listener[T]) targetChange(c *pb.TargetChange) (complete bool, err error) {
	switch c.GetTargetChangeType() {
	case pb.TargetChange_NO_CHANGE:
		if !l.current || len(c.GetTargetIds()) > 0 || c.GetReadTime() == nil {
			return false, nil
		}
		if !l.reset {
			l.batch.At = c.GetReadTime().AsTime()
		}
		l.whole = true
		return true, nil
	case pb.TargetChange_ADD:
		l.begin(c)
	case pb.TargetChange_CURRENT:
		l.current = true
	case pb.TargetChange_RESET:
		// The emulator sends the first batch from one thread and what follows a RESET from
		// another. Until the first batch is complete, old documents may follow new ones.
		if !l.whole {
			return false, errStartedOver
		}
		l.batch, l.reset, l.current, l.filter = Batch[T]{}, true, false, nil
		l.begin(c)
		clear(l.apart)
	case pb.TargetChange_REMOVE:
		return false, fmt.Errorf("%w: target removed: %w", ErrDoubt, status.ErrorProto(c.GetCause()))
	default:
		return false, fmt.Errorf("%w: target change %v", ErrDoubt, c.GetTargetChangeType())
	}
	return false, nil
}

// begin notes when the store looked up all documents that it now sends. The emulator names
// the time of each batch at its end, too, but commits between the two are not in it. Where
// the beginning has no time, the newest document gives one: the batch is a snapshot.
func (l *listener[T]) begin(c *pb.TargetChange) {
	l.batch.At, l.undated = time.Time{}, c.GetReadTime() == nil
	if !l.undated {
		l.batch.At = c.GetReadTime().AsTime()
	}
}

func (l *listener[T]) changed(doc *pb.Document) {
	if at := doc.GetUpdateTime().AsTime(); l.undated && at.After(l.batch.At) {
		l.batch.At = at
	}
	id := lastPart(doc.GetName())
	if isCanary(id) {
		l.apart[id] = true
		if c, err := heardCanary(id, doc.GetFields()); err == nil {
			l.batch.Canaries = append(l.batch.Canaries, c)
		}
		return
	}
	v, err := l.decode(id, doc.GetFields())
	if err != nil {
		l.apart[id] = true
	} else {
		delete(l.apart, id)
	}
	l.batch.Changes = append(l.batch.Changes, Change[T]{ID: id, Gone: err != nil, Err: err, Value: v})
}

func (l *listener[T]) gone(name string) {
	id := lastPart(name)
	delete(l.apart, id)
	if isCanary(id) {
		l.batch.Departed = append(l.batch.Departed, strings.TrimPrefix(id, canaryMark))
		return
	}
	l.batch.Changes = append(l.batch.Changes, Change[T]{ID: id, Gone: true})
}

func (l *listener[T]) take() Batch[T] {
	b := l.batch
	b.Reset = l.reset
	if l.filter != nil {
		readable := *l.filter - len(l.apart)
		b.Stored = &readable
	}
	l.batch, l.reset, l.undated, l.filter = Batch[T]{}, false, false, nil
	return b
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
