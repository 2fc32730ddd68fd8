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

const targetID = 1

// emulatorLag is the emulator's [Batch.Lag]. The measured delay was at most 77 ms.
const emulatorLag = 150 * time.Millisecond

var errEarlyReset = errors.New("the stream was reset before its first batch was complete")

// ErrListenerReset is in the error chain if the receiver's data may be incomplete. After other errors, the
// data is valid.
var ErrListenerReset = errors.New("listener data may be incomplete")

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

// Feed listens to collections and delivers changes in commit order. It uses the generated Listen
// client: the library's Snapshots hold every document (about 3.4 KB each) and do not report
// consistent states.
type Feed struct {
	database string
	lag      time.Duration
}

// NewFeed returns a feed of a project's database. Each listener opens its own connection, so it
// never inherits a dead one.
func NewFeed(project string) *Feed {
	f := &Feed{database: "projects/" + project + "/databases/(default)"}
	if os.Getenv(emulatorVariable) != "" {
		f.lag = emulatorLag
	}
	return f
}

// listen passes batches to the receiver until ctx or the stream ends, or the receiver returns an
// error. It never returns nil.
func listen[T any](ctx context.Context, f *Feed, q *pb.StructuredQuery, decode func(id string, f fields) (T, error), to Receiver[T]) error {
	return fmt.Errorf("listen to %s: %w", q.GetFrom()[0].GetCollectionId(), receiveAll(ctx, f, q, decode, to))
}

func receiveAll[T any](ctx context.Context, f *Feed, q *pb.StructuredQuery, decode func(id string, f fields) (T, error), to Receiver[T]) error {
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
	defer func() { _ = client.Close() }()
	stream, err := client.Listen(metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", f.database))
	if err != nil {
		return err
	}
	if err := stream.Send(f.target(q)); err != nil {
		return err
	}
	l := listener[T]{decode: decode, reset: true, excluded: map[string]bool{}}
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		to.Heard()
		complete, err := l.handle(res)
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

func all(collection string) *pb.StructuredQuery {
	return &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: collection}}}
}

// allBut excludes documents with the status or without any. The emulator takes twice as long for a
// list of statuses.
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

// listener collects messages into batches. Changes arrive in commit order. After RESET, the store
// sends all documents again. CURRENT means that it has sent all documents from before the start.
// NO_CHANGE without a target ID marks a consistent state.
type listener[T any] struct {
	decode  func(id string, f fields) (T, error)
	batch   Batch[T]
	reset   bool
	current bool
	whole   bool
	undated bool

	excluded map[string]bool // IDs of canaries and unreadable documents, which the receiver does not store
	filter   *int            // number of documents by the store's count
}

func (l *listener[T]) handle(res *pb.ListenResponse) (complete bool, err error) {
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
		return false, fmt.Errorf("%w: unknown message %T", ErrListenerReset, r)
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
		// The emulator sends the first batch and the messages after a RESET from different threads,
		// so old documents may follow new ones.
		if !l.whole {
			return false, errEarlyReset
		}
		l.batch, l.reset, l.current, l.filter = Batch[T]{}, true, false, nil
		l.begin(c)
		clear(l.excluded)
	case pb.TargetChange_REMOVE:
		return false, fmt.Errorf("%w: target removed: %w", ErrListenerReset, status.ErrorProto(c.GetCause()))
	default:
		return false, fmt.Errorf("%w: target change %v", ErrListenerReset, c.GetTargetChangeType())
	}
	return false, nil
}

// begin sets the time at which the store read the documents that follow, which becomes [Batch.At].
// The emulator's time at the end of a batch is too late: commits between the two times are missing.
// If c has no time, the newest document determines it.
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
		l.excluded[id] = true
		if c, err := parseCanary(id, doc.GetFields()); err == nil {
			l.batch.Canaries = append(l.batch.Canaries, c)
		}
		return
	}
	v, err := l.decode(id, doc.GetFields())
	if err != nil {
		l.excluded[id] = true
	} else {
		delete(l.excluded, id)
	}
	l.batch.Changes = append(l.batch.Changes, DocChange[T]{ID: id, Gone: err != nil, Err: err, Value: v})
}

func (l *listener[T]) gone(name string) {
	id := lastPart(name)
	delete(l.excluded, id)
	if isCanary(id) {
		l.batch.Departed = append(l.batch.Departed, strings.TrimPrefix(id, canaryMark))
		return
	}
	l.batch.Changes = append(l.batch.Changes, DocChange[T]{ID: id, Gone: true})
}

func (l *listener[T]) take() Batch[T] {
	b := l.batch
	b.Reset = l.reset
	if l.filter != nil {
		readable := *l.filter - len(l.excluded)
		b.Stored = &readable
	}
	l.batch, l.reset, l.undated, l.filter = Batch[T]{}, false, false, nil
	return b
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
