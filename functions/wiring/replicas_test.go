package wiring

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// resolver is a host whose addresses change with every lookup, up to the last.
type resolver struct {
	lookups [][]string
	looked  int

	mu    sync.Mutex
	asked map[string]int // probes by address
}

func (r *resolver) lookup(context.Context) ([]string, error) {
	r.looked++
	addresses := r.lookups[min(r.looked, len(r.lookups))-1]
	if addresses == nil {
		return nil, errors.New("no such host")
	}
	return slices.Clone(addresses), nil
}

func (r *resolver) replicas(answers map[string]kind) replicas {
	r.asked = map[string]int{}
	return replicas{r.lookup, func(_ context.Context, address string) probeResult {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked[address]++
		if kind, ok := answers[address]; ok {
			return probeResult{kind: kind}
		}
		return probeResult{kind: unreachable}
	}}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	many := make([]string, maxReplicas+1)
	allOf := map[string]kind{}
	for i := range many {
		many[i] = strconv.Itoa(i)
		allOf[many[i]] = refused
	}
	gated := map[string]kind{"a": refused, "b": refused, "c": refused}
	tests := []struct {
		name    string
		lookups [][]string
		answers map[string]kind
		want    kind
	}{
		{"one", [][]string{{"a"}}, gated, refused},
		{"all", [][]string{{"a", "b", "c"}}, gated, refused},
		{"as many as are asked", [][]string{many[:maxReplicas]}, allOf, refused},
		{"more than are asked", [][]string{many}, allOf, tooMany},
		{"one lacks it", [][]string{{"a", "b"}}, map[string]kind{"a": refused, "b": other}, other},
		{"one lacks it, and one is away", [][]string{{"a", "b", "c"}}, map[string]kind{"b": refused, "c": copied}, copied},
		{"one cannot verify, and one is away", [][]string{{"a", "b"}}, map[string]kind{"b": unavailable}, unavailable},
		{"one is away, and should be there", [][]string{{"a", "x"}}, gated, unreachable},
		{"one hangs, and should be there", [][]string{{"a", "b"}}, map[string]kind{"a": refused, "b": late}, late},
		{"one went away", [][]string{{"a", "x"}, {"a"}}, gated, refused},
		{"one went away as it hung", [][]string{{"a", "b"}, {"a"}}, map[string]kind{"a": refused, "b": late}, refused},
		{"one went away, and another came", [][]string{{"a", "x"}, {"a", "b"}}, gated, refused},
		{"another came, which lacks it", [][]string{{"a", "x"}, {"a", "d"}}, map[string]kind{"a": refused, "d": other}, other},
		{"all went away, and others came", [][]string{{"x", "y"}, {"a", "b"}}, gated, refused},
		{"they keep going away", [][]string{{"a", "w"}, {"a", "x"}, {"a", "y"}, {"a"}}, gated, unreachable},
		{"all went away", [][]string{{"x"}, {}}, gated, unreachable},
		{"no such host", [][]string{nil}, gated, unreachable},
		{"twice the same", [][]string{{"a", "a"}}, gated, refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &resolver{lookups: tt.lookups}
			if got := r.replicas(tt.answers).probe(t.Context(), proveEngaged); got.kind != tt.want {
				t.Errorf("got %q, want %q", got.kind, tt.want)
			}
		})
	}
}

// TestProvenAtEveryReplica tests that a gate is proven only if every address of the last lookup has
// proven it. It must be proven if the replicas do not change and all have the gate.
func TestProvenAtEveryReplica(t *testing.T) {
	t.Parallel()
	addresses := []string{"a", "b", "c", "d", "e"}
	kinds := []kind{refused, refused, refused, other, copied, silent, unavailable, untrusted, late, unreachable}
	rapid.Check(t, func(t *rapid.T) {
		answers := map[string]kind{}
		for _, address := range addresses {
			answers[address] = rapid.SampledFrom(kinds).Draw(t, address)
		}
		list := rapid.SliceOfNDistinct(rapid.SampledFrom(addresses), 0, len(addresses), rapid.ID[string])
		r := &resolver{lookups: rapid.SliceOfN(list, 1, 4).Draw(t, "look-ups")}
		got := r.replicas(answers).probe(context.Background(), proveEngaged)
		last, proven := r.lookups[min(r.looked, len(r.lookups))-1], true
		for _, address := range last {
			proven = proven && answers[address] == refused
		}
		if proven = proven && len(last) > 0; got.proves(proveEngaged) != proven {
			t.Fatalf("got %q after %d lookups", got.kind, r.looked)
		}
		if r.looked > maxLookups || slices.Max(append(slices.Collect(maps.Values(r.asked)), 0)) > 1 {
			t.Fatalf("%d lookups, probes %v", r.looked, r.asked)
		}
		for _, address := range last {
			if k := answers[address]; (probeResult{kind: k}).passes() && !got.passes() && r.asked[address] > 0 {
				t.Fatalf("%s allows requests, but the result is %q", address, got.kind)
			}
		}
	})
}
