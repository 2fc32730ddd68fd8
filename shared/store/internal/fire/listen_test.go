package fire

import (
	"errors"
	"fmt"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicegate/sluice/tests/check"
)

func doc(id string) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentChange{DocumentChange: &pb.DocumentChange{
		Document: &pb.Document{Name: "projects/p/databases/(default)/documents/plans/" + id}, TargetIds: []int32{targetID},
	}}}
}

func deleted(id string) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentDelete{DocumentDelete: &pb.DocumentDelete{Document: "x/plans/" + id}}}
}

// excluded is a document that no longer matches the query.
func excluded(id string) *pb.ListenResponse {
	r := doc(id)
	r.GetDocumentChange().TargetIds = nil
	return r
}

func target(kind pb.TargetChange_TargetChangeType) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: &pb.TargetChange{TargetChangeType: kind, TargetIds: []int32{targetID}}}}
}

func consistent() *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: &pb.TargetChange{ReadTime: timestamppb.Now()}}}
}

func filter(n int32) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_Filter{Filter: &pb.ExistenceFilter{Count: n}}}
}

// received records the calls of a receiver: "+id", "-id", "discard", "complete" and "reset" for a
// complete set of documents, with the store's count.
type received struct {
	calls     []string
	snapshots []Snapshot
	err       error
}

func (r *received) Heard() {}

func (r *received) Changed(id string, _ *FieldReader) { r.calls = append(r.calls, "+"+id) }

func (r *received) Gone(id string) { r.calls = append(r.calls, "-"+id) }

func (r *received) Discard() { r.calls = append(r.calls, "discard") }

func (r *received) Complete(s Snapshot) error {
	call := "complete"
	if s.Reset {
		call = "reset"
	}
	if s.Count != nil {
		call += fmt.Sprint(" ", *s.Count)
	}
	r.calls, r.snapshots = append(r.calls, call), append(r.snapshots, s)
	return r.err
}

func TestListener(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stream []*pb.ListenResponse
		want   []string
		doubt  bool
	}{
		{"an empty collection", []*pb.ListenResponse{target(pb.TargetChange_ADD), target(pb.TargetChange_CURRENT), consistent()}, []string{"reset"}, false},
		{"nothing before CURRENT", []*pb.ListenResponse{doc("a"), consistent()}, []string{"+a"}, false},
		{
			"a first batch, then changes",
			[]*pb.ListenResponse{doc("a"), doc("b"), target(pb.TargetChange_CURRENT), consistent(), doc("a"), deleted("b"), excluded("c"), consistent()},
			[]string{"+a", "+b", "reset", "+a", "-b", "-c", "complete"},
			false,
		},
		{
			"a reset discards the batch in progress",
			[]*pb.ListenResponse{target(pb.TargetChange_CURRENT), consistent(), doc("a"), filter(1), target(pb.TargetChange_RESET), doc("b"), target(pb.TargetChange_CURRENT), consistent()},
			[]string{"reset", "+a", "discard", "+b", "reset"},
			false,
		},
		{
			"a later reset",
			[]*pb.ListenResponse{doc("a"), target(pb.TargetChange_CURRENT), consistent(), target(pb.TargetChange_RESET), consistent(), target(pb.TargetChange_CURRENT), consistent()},
			[]string{"+a", "reset", "discard", "reset"},
			false,
		},
		{
			"a filter",
			[]*pb.ListenResponse{doc("a"), target(pb.TargetChange_CURRENT), filter(3), consistent(), consistent()},
			[]string{"+a", "reset 3", "complete"},
			false,
		},
		{"the target removed", []*pb.ListenResponse{target(pb.TargetChange_REMOVE)}, nil, true},
		{"an unknown message", []*pb.ListenResponse{{}}, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got received
			err := handleAll(newListener(&got), test.stream)
			check.Equal(t, "calls", test.want, got.calls)
			if (err != nil) != test.doubt || errors.Is(err, ErrListenerReset) != test.doubt {
				t.Errorf("got error %v, want one: %t", err, test.doubt)
			}
		})
	}
}

func handleAll(l *listener, stream []*pb.ListenResponse) error {
	for _, m := range stream {
		if err := l.handle(m); err != nil {
			return err
		}
	}
	return nil
}

func TestReceiverEndsListener(t *testing.T) {
	t.Parallel()
	got := received{err: errors.New("enough")}
	err := handleAll(newListener(&got), []*pb.ListenResponse{target(pb.TargetChange_CURRENT), consistent(), consistent()})
	if !errors.Is(err, got.err) || len(got.calls) != 1 {
		t.Errorf("got error %v after %v, want the receiver's after its first batch", err, got.calls)
	}
}

func TestCompleteUntil(t *testing.T) {
	t.Parallel()
	at := func(r *pb.ListenResponse, second int64) *pb.ListenResponse {
		r.GetTargetChange().ReadTime = &timestamppb.Timestamp{Seconds: second}
		return r
	}
	written := func(second int64) *pb.ListenResponse {
		r := doc("a")
		r.GetDocumentChange().GetDocument().UpdateTime = &timestamppb.Timestamp{Seconds: second}
		return r
	}
	tests := []struct {
		name   string
		stream []*pb.ListenResponse
		want   []int64 // Unix seconds; 0 if unknown
	}{
		{
			"the first batch of the emulator, which has new commits at its end",
			[]*pb.ListenResponse{target(pb.TargetChange_ADD), written(3), written(2), at(target(pb.TargetChange_CURRENT), 6), at(consistent(), 7)},
			[]int64{3},
		},
		{
			"a dated beginning",
			[]*pb.ListenResponse{at(target(pb.TargetChange_ADD), 4), written(3), at(target(pb.TargetChange_CURRENT), 6), at(consistent(), 7)},
			[]int64{4},
		},
		{
			"an empty collection",
			[]*pb.ListenResponse{target(pb.TargetChange_ADD), at(target(pb.TargetChange_CURRENT), 6), at(consistent(), 7), at(consistent(), 9)},
			[]int64{0, 9},
		},
		{
			"changes",
			[]*pb.ListenResponse{
				target(pb.TargetChange_ADD), target(pb.TargetChange_CURRENT), at(consistent(), 5),
				written(6), at(target(pb.TargetChange_NO_CHANGE), 7), at(consistent(), 8), at(consistent(), 9),
			},
			[]int64{0, 8, 9},
		},
		{
			"resets",
			[]*pb.ListenResponse{
				target(pb.TargetChange_ADD), target(pb.TargetChange_CURRENT), at(consistent(), 5),
				at(target(pb.TargetChange_RESET), 11), written(12), at(consistent(), 12), at(target(pb.TargetChange_CURRENT), 13), at(consistent(), 14),
				target(pb.TargetChange_RESET), written(15), target(pb.TargetChange_CURRENT), at(consistent(), 16), at(consistent(), 17),
			},
			[]int64{0, 11, 15, 17},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var r received
			check.OK(t, handleAll(newListener(&r), test.stream))
			var got []int64
			for _, s := range r.snapshots {
				got = append(got, max(0, s.At.Unix()))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStartedOver(t *testing.T) {
	t.Parallel()
	l := newListener(&received{})
	check.OK(t, handleAll(l, []*pb.ListenResponse{target(pb.TargetChange_ADD), doc("a"), target(pb.TargetChange_CURRENT)}))
	if err := l.handle(target(pb.TargetChange_RESET)); !errors.Is(err, errEarlyReset) || errors.Is(err, ErrListenerReset) {
		t.Errorf("early reset: got error %v, want errEarlyReset", err)
	}
}
