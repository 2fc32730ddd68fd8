package usage

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/check"
)

func TestPackedCountsRoundTrip(t *testing.T) {
	t.Parallel()
	want := []Count{{"ab12cd34", Totals{1, 2, 3}}, {"zzzzzzzz", Totals{1 << 60, 0, 127}}}
	var p Packed
	for _, c := range want {
		p = p.Pack(c.Prefix, c.Totals)
	}
	check.OK(t, p.Check())
	var got []Count
	for c := range p.All() {
		got = append(got, c)
	}
	check.Equal(t, "counts", want, got)
	if err := p[:len(p)-1].Check(); !errors.Is(err, ErrDamaged) {
		t.Errorf("truncated counts: got %v, want ErrDamaged", err)
	}
	if err := Packed("AB12CD34\x01\x01\x01").Check(); !errors.Is(err, ErrDamaged) {
		t.Errorf("invalid prefix: got %v, want ErrDamaged", err)
	}
}

func FuzzPacked(f *testing.F) {
	f.Add([]byte(Packed(nil).Pack("ab12cd34", Totals{1, 2, 3})))
	f.Add([]byte("ab12cd34"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Packed(b)
		var again Packed
		for c := range p.All() {
			again = again.Pack(c.Prefix, c.Totals)
		}
		if err := p.Check(); err == nil && !cmp.Equal(sum([]Counter{{Counts: p}}), sum([]Counter{{Counts: again}})) {
			t.Fatalf("counts %q: got other sums after packing", b)
		}
	})
}
