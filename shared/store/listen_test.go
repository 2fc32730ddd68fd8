package store

import (
	"errors"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/tests/check"
)

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

// holder receives batches, and verifies that it holds a number of documents.
type holder struct {
	held    int
	batches [][]string
}

func (h *holder) Heard() {}

func (h *holder) Receive(b Batch[plan.Plan]) error {
	h.batches = append(h.batches, heard(b))
	return b.Verify(h.held)
}

func TestListener(t *testing.T) {
	t.Parallel()
	type planListener = *listener[plan.Plan]
	changed := func(id string, f map[string]*pb.Value) func(planListener) error {
		return func(l planListener) error { l.Changed(id, fire.NewFieldReader(f)); return nil }
	}
	gone := func(id string) func(planListener) error {
		return func(l planListener) error { l.Gone(id); return nil }
	}
	discard := func(l planListener) error { l.Discard(); return nil }
	complete := func(reset bool, count ...int) func(planListener) error {
		s := fire.Snapshot{Reset: reset}
		for _, n := range count {
			s.Count = &n
		}
		return func(l planListener) error { return l.Complete(s) }
	}
	good, bad := planFields("a", 1), planFields("x", -1)
	tests := []struct {
		name  string
		calls []func(planListener) error
		held  int // documents that the receiver holds at the end
		want  [][]string
		doubt bool
	}{
		{
			"a first batch, then changes",
			[]func(planListener) error{changed("ns.a", good), changed("ns.b", planFields("b", 1)), complete(true), changed("ns.a", good), gone("ns.b"), complete(false)},
			1,
			[][]string{{"reset", "+ns.a", "+ns.b"}, {"+ns.a", "-ns.b"}},
			false,
		},
		{
			"canaries come with their batch",
			[]func(planListener) error{complete(true), changed("canary.r1", canaryFields(7)), changed("ns.a", good), gone("canary.r2"), complete(false)},
			1,
			[][]string{{"reset"}, {"+ns.a", "departed r2", "canary of r1"}},
			false,
		},
		{
			"a reset discards the batch in progress",
			[]func(planListener) error{complete(true), changed("ns.a", good), changed("ns.x", bad), discard, changed("ns.b", planFields("b", 1)), complete(true, 1)},
			1,
			[][]string{{"reset"}, {"reset", "+ns.b"}},
			false,
		},
		{
			"a copy of a document under another ID is unreadable",
			[]func(planListener) error{changed("ns.copy", good), complete(true, 1)},
			0,
			[][]string{{"reset", "?ns.copy"}},
			false,
		},
		{"an unreadable document", []func(planListener) error{changed("ns.a", bad), complete(true)}, 0, [][]string{{"reset", "?ns.a"}}, false},
		{
			"a count that agrees",
			[]func(planListener) error{changed("ns.a", good), changed("ns.x", bad), changed("canary.r", canaryFields(1)), complete(true, 3)},
			1,
			[][]string{{"reset", "+ns.a", "?ns.x", "canary of r"}},
			false,
		},
		{
			"a count that disagrees",
			[]func(planListener) error{changed("ns.a", good), complete(true), complete(false, 0)},
			1,
			[][]string{{"reset", "+ns.a"}, nil},
			true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := &holder{held: test.held}
			l := newListener(0, parsePlan, h)
			var err error
			for _, call := range test.calls {
				err = errors.Join(err, call(l))
			}
			check.Equal(t, "batches", test.want, h.batches)
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
			p, err := parsePlan("ns.a", fire.NewFieldReader(f))
			if (err == nil) != test.ok || test.ok && p.Hard != test.hard {
				t.Errorf("got hard %t, error %v", p.Hard, err)
			}
		})
	}
}
