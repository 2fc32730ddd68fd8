package store

import (
	"errors"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/tests/check"
)

func doc(id string, f map[string]*pb.Value) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentChange{DocumentChange: &pb.DocumentChange{
		Document: &pb.Document{Name: "projects/p/databases/(default)/documents/plans/" + id, Fields: f}, TargetIds: []int32{targetID},
	}}}
}

func planFields(id string, rate float64) map[string]*pb.Value {
	text := func(s string) *pb.Value { return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: s}} }
	whole := func(n int64) *pb.Value { return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: n}} }
	return map[string]*pb.Value{
		"id": text(id), "namespace": text("ns"), "burst": whole(1), "quota": whole(0), "quota_period": text(""),
		"rate": {ValueType: &pb.Value_DoubleValue{DoubleValue: rate}},
	}
}

func canaryFields(seq int64) map[string]*pb.Value {
	return map[string]*pb.Value{
		"run": {ValueType: &pb.Value_StringValue{StringValue: "run"}}, "seq": {ValueType: &pb.Value_IntegerValue{IntegerValue: seq}},
	}
}

func deleted(id string) *pb.ListenResponse {
	return &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentDelete{DocumentDelete: &pb.DocumentDelete{Document: "x/plans/" + id}}}
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

// heard summarizes a batch: "reset", "+id", "-id", "?id" for an unreadable document, "canary n".
func heard(b Batch[plan.Plan]) []string {
	var s []string
	if b.Reset {
		s = append(s, "reset")
	}
	for _, c := range b.Changes {
		switch {
		case c.Err != nil:
			s = append(s, "?"+c.ID)
		case c.Gone:
			s = append(s, "-"+c.ID)
		default:
			s = append(s, "+"+c.ID)
		}
	}
	for _, replica := range b.Departed {
		s = append(s, "departed "+replica)
	}
	for _, c := range b.Canaries {
		s = append(s, "canary of "+c.Replica)
	}
	return s
}

func TestListener(t *testing.T) {
	t.Parallel()
	bad := planFields("x", -1)
	tests := []struct {
		name   string
		stream []*pb.ListenResponse
		held   int // documents that the receiver holds at the end
		want   [][]string
		doubt  bool
	}{
		{"an empty collection", []*pb.ListenResponse{target(pb.TargetChange_ADD), target(pb.TargetChange_CURRENT), consistent()}, 0, [][]string{{"reset"}}, false},
		{"nothing before CURRENT", []*pb.ListenResponse{doc("ns.a", planFields("a", 1)), consistent()}, 0, nil, false},
		{
			"a first batch, then changes",
			[]*pb.ListenResponse{doc("ns.a", planFields("a", 1)), doc("ns.b", planFields("b", 1)), target(pb.TargetChange_CURRENT), consistent(), doc("ns.a", planFields("a", 2)), deleted("ns.b"), consistent()},
			1,
			[][]string{{"reset", "+ns.a", "+ns.b"}, {"+ns.a", "-ns.b"}},
			false,
		},
		{
			"canaries come with their batch",
			[]*pb.ListenResponse{target(pb.TargetChange_CURRENT), consistent(), doc("canary.r1", canaryFields(7)), doc("ns.a", planFields("a", 1)), consistent()},
			1,
			[][]string{{"reset"}, {"+ns.a", "canary of r1"}},
			false,
		},
		{
			"a reset discards the batch in progress",
			[]*pb.ListenResponse{target(pb.TargetChange_CURRENT), consistent(), doc("ns.a", planFields("a", 1)), target(pb.TargetChange_RESET), doc("ns.b", planFields("b", 1)), target(pb.TargetChange_CURRENT), consistent()},
			1,
			[][]string{{"reset"}, {"reset", "+ns.b"}},
			false,
		},
		{
			"a later reset",
			[]*pb.ListenResponse{doc("ns.a", planFields("a", 1)), target(pb.TargetChange_CURRENT), consistent(), target(pb.TargetChange_RESET), consistent(), target(pb.TargetChange_CURRENT), consistent()},
			0,
			[][]string{{"reset", "+ns.a"}, {"reset"}},
			false,
		},
		{
			"a copy of a document under another ID is unreadable",
			[]*pb.ListenResponse{doc("ns.copy", planFields("a", 1)), target(pb.TargetChange_CURRENT), filter(1), consistent()},
			0,
			[][]string{{"reset", "?ns.copy"}},
			false,
		},
		{"an unreadable document", []*pb.ListenResponse{doc("ns.a", bad), target(pb.TargetChange_CURRENT), consistent()}, 0, [][]string{{"reset", "?ns.a"}}, false},
		{
			"a filter that agrees",
			[]*pb.ListenResponse{doc("ns.a", planFields("a", 1)), doc("ns.x", bad), doc("canary.r", canaryFields(1)), target(pb.TargetChange_CURRENT), filter(3), consistent()},
			1,
			[][]string{{"reset", "+ns.a", "?ns.x", "canary of r"}},
			false,
		},
		{
			"a filter that disagrees",
			[]*pb.ListenResponse{doc("ns.a", planFields("a", 1)), target(pb.TargetChange_CURRENT), consistent(), filter(0), consistent()},
			1,
			[][]string{{"reset", "+ns.a"}, nil},
			true,
		},
		{"the target removed", []*pb.ListenResponse{target(pb.TargetChange_REMOVE)}, 0, nil, true},
		{"an unknown message", []*pb.ListenResponse{{}}, 0, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := listener[plan.Plan]{decode: parsePlan, reset: true, excluded: map[string]bool{}}
			var got [][]string
			var err error
			for _, m := range test.stream {
				var complete bool
				if complete, err = l.handle(m); err == nil && complete {
					b := l.take()
					got = append(got, heard(b))
					err = b.Verify(test.held)
				}
				if err != nil {
					break
				}
			}
			check.Equal(t, "batches", test.want, got)
			if errors.Is(err, ErrListenerReset) != test.doubt {
				t.Errorf("unexpected error %v", err)
			}
		})
	}
}

func TestParsePlanMode(t *testing.T) {
	t.Parallel()
	text := func(s string) *pb.Value { return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: s}} }
	whole := func(n int64) *pb.Value { return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: n}} }
	tests := []struct {
		name     string
		quota    int64
		mode     *pb.Value // nil if the field is missing
		hard, ok bool
	}{
		{"none", 5, nil, false, true},
		{"null", 5, &pb.Value{ValueType: &pb.Value_NullValue{}}, false, true},
		{"empty", 5, text(""), false, true},
		{"soft", 5, text("soft"), false, true},
		{"hard", 5, text("hard"), true, true},
		{"another word", 5, text("firm"), false, false},
		{"another case", 5, text("Hard"), false, false},
		{"another type", 5, whole(1), false, false},
		{"hard without a quota", 0, text("hard"), false, false},
		{"empty without a quota", 0, text(""), false, true},
		{"none without a quota", 0, nil, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := planFields("a", 1)
			if f["quota"] = whole(test.quota); test.quota != 0 {
				f["quota_period"] = text("day")
			}
			if test.mode != nil {
				f["quota_mode"] = test.mode
			}
			p, err := parsePlan("ns.a", f)
			if (err == nil) != test.ok || test.ok && p.Hard != test.hard {
				t.Errorf("got hard %t, error %v", p.Hard, err)
			}
		})
	}
}

func TestCompleteUntil(t *testing.T) {
	t.Parallel()
	at := func(r *pb.ListenResponse, second int64) *pb.ListenResponse {
		r.GetTargetChange().ReadTime = &timestamppb.Timestamp{Seconds: second}
		return r
	}
	written := func(second int64) *pb.ListenResponse {
		r := doc("ns.a", planFields("a", 1))
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
			l := listener[plan.Plan]{decode: parsePlan, reset: true, excluded: map[string]bool{}}
			var got []int64
			for _, res := range test.stream {
				complete, err := l.handle(res)
				check.OK(t, err)
				if complete {
					got = append(got, max(0, l.take().At.Unix()))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStartedOver(t *testing.T) {
	t.Parallel()
	l := listener[plan.Plan]{decode: parsePlan, reset: true, excluded: map[string]bool{}}
	for _, res := range []*pb.ListenResponse{target(pb.TargetChange_ADD), doc("ns.a", planFields("a", 1)), target(pb.TargetChange_CURRENT)} {
		if _, err := l.handle(res); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.handle(target(pb.TargetChange_RESET)); !errors.Is(err, errEarlyReset) || errors.Is(err, ErrListenerReset) {
		t.Errorf("early reset: got error %v, want errEarlyReset", err)
	}
}
