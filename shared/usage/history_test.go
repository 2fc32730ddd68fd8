package usage

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/tests/check"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	var h History
	h = h.Merge(10, Totals{Allowed: 1})
	h = h.Merge(8, Totals{RateDenied: 2})
	first := h
	h = h.Merge(9, Totals{QuotaDenied: 3})
	h = h.Merge(10, Totals{Allowed: 5, RateDenied: 1})
	h = h.Merge(10, Totals{Allowed: 4, RateDenied: 2})
	h = h.Merge(11, Totals{})
	want := History{{8, Totals{RateDenied: 2}}, {9, Totals{QuotaDenied: 3}}, {10, Totals{Allowed: 5, RateDenied: 2}}}
	check.Equal(t, "raised", want, h)
	check.Equal(t, "a history was changed by raising it", History{{8, Totals{RateDenied: 2}}, {10, Totals{Allowed: 1}}}, first)
	check.Equal(t, "since", want[1:], h.Since(9))
	if got := h.Totals(7); !got.Zero() {
		t.Errorf("day without requests: got %v, want zero", got)
	}
	if got := h.Since(12); len(got) != 0 {
		t.Errorf("days after the last: got %v, want none", got)
	}
}

func histories() *rapid.Generator[History] {
	total := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 300), rapid.Uint64())
	return rapid.Custom(func(t *rapid.T) History {
		var h History
		for range rapid.IntRange(0, 8).Draw(t, "days") {
			day := Day(rapid.Int32Range(0, 40000).Draw(t, "day"))
			h = h.Merge(day, Totals{total.Draw(t, "allowed"), total.Draw(t, "rate"), total.Draw(t, "quota")})
		}
		return h
	})
}

func TestHistoryPack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := histories().Draw(t, "history")
		packed := h.Pack()
		got, err := UnpackHistory(packed)
		if err != nil || !got.Equal(h) {
			t.Fatalf("history %v: got %v, %v after packing", h, got, err)
		}
		for n := range packed {
			short, err := UnpackHistory(packed[:n])
			if err == nil && (len(short) >= len(h) || !short.Equal(h[:len(short)])) {
				t.Fatalf("%d of %d bytes: got %v, want an error or fewer days", n, len(packed), short)
			}
		}
	})
}

func TestRaiseInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := histories().Draw(t, "history")
		again := rapid.SliceOfN(rapid.SampledFrom(append(History{{}}, h...)), 0, 20).Draw(t, "again")
		var other History
		for _, d := range append(rapid.Permutation(h).Draw(t, "order"), again...) {
			other = other.Merge(d.Day, d.Totals)
		}
		if !other.Equal(h) {
			t.Fatalf("history %v: got %v in another order", h, other)
		}
	})
}

func TestHistoryIsSmall(t *testing.T) {
	t.Parallel()
	var h History
	for d := range Day(RetentionDays) {
		h = h.Merge(20000+d, Totals{Allowed: 1e9, RateDenied: 1e9, QuotaDenied: 1e9})
	}
	if n := len(h.Pack()); n > 1500 {
		t.Errorf("history: got %d bytes, want at most 1500", n)
	}
}

func FuzzUnpackHistory(f *testing.F) {
	f.Add(History{{20000, Totals{1, 2, 3}}, {20001, Totals{1 << 40, 0, 1}}}.Pack())
	f.Add([]byte{0, 1, 1, 1, 0, 1, 1, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := UnpackHistory(b)
		if err != nil {
			return
		}
		for i := 1; i < len(h); i++ {
			if h[i].Day <= h[i-1].Day {
				t.Fatalf("days: got %v, want ascending", h)
			}
		}
		again, err := UnpackHistory(h.Pack())
		if err != nil || !again.Equal(h) {
			t.Fatalf("history %v: got %v, %v after packing", h, again, err)
		}
	})
}
