package fire

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

// emulatorLag is the emulator's [Feed.Lag]. The measured delay was at most 77 ms.
const emulatorLag = 150 * time.Millisecond

var errEarlyReset = errors.New("the stream was reset before its first batch was complete")

// ErrListenerReset is in the error chain if the receiver's data may be incomplete. After other errors, the
// data is valid.
var ErrListenerReset = errors.New("listener data may be incomplete")

// Selection selects the documents of a collection, except those with the value Not of a field, and
// those without the field. The emulator takes twice as long for a list of values.
type Selection struct{ Collection, Field, Not string }

// Snapshot is a consistent state.
type Snapshot struct {
	Reset bool      // the changes since the last snapshot are all documents
	At    time.Time // no earlier commit is missing, by the store's clock; zero if unknown
	Count *int      // number of documents by the store's count; nil if unknown
}

// Receiver processes the messages of a listener. Changes arrive in commit order.
type Receiver interface {
	Heard() // a message of any kind
	Changed(id string, fields *FieldReader)
	Gone(id string)
	Discard()                  // the store sends all documents again
	Complete(s Snapshot) error // an error ends the listener
}

// Feed listens to collections. It uses the generated Listen client: the library's Snapshots hold
// every document (about 3.4 KB each) and do not report consistent states.
type Feed struct {
	Lag      time.Duration // for which a commit from before [Snapshot.At] may still follow
	database string
}

// NewFeed returns a feed of a project's database. Each listener opens its own connection, so it
// never inherits a dead one.
func NewFeed(project string) Feed {
	f := Feed{database: "projects/" + project + "/databases/(default)"}
	if os.Getenv(emulatorVariable) != "" {
		f.Lag = emulatorLag
	}
	return f
}

// Listen passes changes to the receiver until ctx or the stream ends, or the receiver returns an
// error. It never returns nil.
func (f Feed) Listen(ctx context.Context, s Selection, to Receiver) error {
	return fmt.Errorf("listen to %s: %w", s.Collection, f.receiveAll(ctx, s, to))
}

func (f Feed) receiveAll(ctx context.Context, s Selection, to Receiver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts, err := clientOptions(dialOptions(&watcher{}))
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
	if err := stream.Send(f.target(s)); err != nil {
		return err
	}
	l := newListener(to)
	for {
		res, err := stream.Recv()
		if err != nil {
			return err
		}
		to.Heard()
		if err := l.handle(res); err != nil {
			return err
		}
	}
}

func (s Selection) query() *pb.StructuredQuery {
	q := &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: s.Collection}}}
	if s.Field != "" {
		q.Where = &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: s.Field},
			Op:    pb.StructuredQuery_FieldFilter_NOT_EQUAL,
			Value: &pb.Value{ValueType: &pb.Value_StringValue{StringValue: s.Not}},
		}}}
	}
	return q
}

func (f Feed) target(s Selection) *pb.ListenRequest {
	return &pb.ListenRequest{
		Database: f.database,
		TargetChange: &pb.ListenRequest_AddTarget{AddTarget: &pb.Target{
			TargetId: targetID,
			TargetType: &pb.Target_Query{Query: &pb.Target_QueryTarget{
				Parent:    f.database + "/documents",
				QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: s.query()},
			}},
		}},
	}
}

// listener interprets the messages of a stream. Changes arrive in commit order. After RESET, the
// store sends all documents again. CURRENT means that it has sent all documents from before the
// start. NO_CHANGE without a target ID marks a consistent state.
type listener struct {
	to      Receiver
	next    Snapshot
	current bool
	whole   bool
	undated bool
}

func newListener(to Receiver) *listener { return &listener{to: to, next: Snapshot{Reset: true}} }

func (l *listener) handle(res *pb.ListenResponse) error {
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
		l.next.Count = &n
	default:
		return fmt.Errorf("%w: unknown message %T", ErrListenerReset, r)
	}
	return nil
}

func (l *listener) targetChange(c *pb.TargetChange) error {
	switch c.GetTargetChangeType() {
	case pb.TargetChange_NO_CHANGE:
		if l.current && len(c.GetTargetIds()) == 0 && c.GetReadTime() != nil {
			return l.complete(c.GetReadTime().AsTime())
		}
	case pb.TargetChange_ADD:
		l.begin(c)
	case pb.TargetChange_CURRENT:
		l.current = true
	case pb.TargetChange_RESET:
		// The emulator sends the first batch and the messages after a RESET from different threads,
		// so old documents may follow new ones.
		if !l.whole {
			return errEarlyReset
		}
		l.next, l.current = Snapshot{Reset: true}, false
		l.begin(c)
		l.to.Discard()
	case pb.TargetChange_REMOVE:
		return fmt.Errorf("%w: target removed: %w", ErrListenerReset, status.ErrorProto(c.GetCause()))
	default:
		return fmt.Errorf("%w: target change %v", ErrListenerReset, c.GetTargetChangeType())
	}
	return nil
}

// begin sets the time at which the store read the documents that follow, which becomes
// [Snapshot.At]. The emulator's time at the end of a batch is too late: commits between the two
// times are missing. If c has no time, the newest document determines it.
func (l *listener) begin(c *pb.TargetChange) {
	l.next.At, l.undated = time.Time{}, c.GetReadTime() == nil
	if !l.undated {
		l.next.At = c.GetReadTime().AsTime()
	}
}

func (l *listener) complete(at time.Time) error {
	s := l.next
	if !s.Reset {
		s.At = at
	}
	l.next, l.undated, l.whole = Snapshot{}, false, true
	if err := l.to.Complete(s); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

func (l *listener) changed(doc *pb.Document) {
	if at := doc.GetUpdateTime().AsTime(); l.undated && at.After(l.next.At) {
		l.next.At = at
	}
	l.to.Changed(lastPart(doc.GetName()), NewFieldReader(doc.GetFields()))
}

func (l *listener) gone(name string) { l.to.Gone(lastPart(name)) }

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
