package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
	"github.com/sluicegate/sluice/shared/usage"
)

// Summary is the usage of an environment, as rollup writes it.
type Summary struct {
	Days    usage.History
	Settled usage.Day       // last finalized day at the last pass over all keys
	Busiest []apikey.Prefix // keys with the most requests on these days

	Used      []apikey.Prefix // keys with requests on later days
	Attention []apikey.Prefix // those of Used that are near their limits
}

type summaryDoc struct {
	Days    []byte          `firestore:"days"`
	Busiest []apikey.Prefix `firestore:"busiest"`
}

// usedDoc is a part of an environment's used keys. Only the first part has the other fields.
type usedDoc struct {
	Used      []byte          `firestore:"used"`
	Parts     int             `firestore:"parts,omitempty"`
	Attention []apikey.Prefix `firestore:"attention,omitempty"`
}

// usedInPart is the number of keys in a part: 8 bytes each, half of the maximum document size.
const usedInPart = 60_000

func (s *Store) summaryRef(namespace string) fire.Ref {
	return s.db.Collection("summaries").Doc(namespace)
}

func (s *Store) usedRef(namespace string, part int) fire.Ref {
	return s.db.Collection("summaries").Doc(namespace + "." + strconv.Itoa(part))
}

// SetSummaries stores the finalized days and busiest keys of environments, by namespace.
func (s *Store) SetSummaries(ctx context.Context, all map[string]Summary) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(all)), narrowPage) {
		err := s.transact(ctx, fmt.Sprintf("store %d summaries", len(some)), func(_ context.Context, _ fire.Tx, b *batch) error {
			for _, namespace := range some {
				b.Set(s.summaryRef(namespace), summaryDoc{all[namespace].Days.Pack(), append([]apikey.Prefix{}, all[namespace].Busiest...)})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// SetUsed stores the sorted used keys of an environment, and those near their limits.
func (s *Store) SetUsed(ctx context.Context, namespace string, used, attention []apikey.Prefix) error {
	return s.transact(ctx, "store the used keys of "+namespace, func(_ context.Context, _ fire.Tx, b *batch) error {
		parts := max((len(used)+usedInPart-1)/usedInPart, 1)
		for i := range parts {
			var d usedDoc
			for _, p := range used[i*usedInPart : min((i+1)*usedInPart, len(used))] {
				d.Used = append(d.Used, p...)
			}
			if i == 0 {
				d.Parts, d.Attention = parts, attention
			}
			b.Set(s.usedRef(namespace, i), d)
		}
		return nil
	})
}

// Used returns the used keys of an environment, sorted.
func (s *Store) Used(ctx context.Context, namespace string) ([]apikey.Prefix, error) {
	sum, err := s.used(ctx, namespace)
	return sum.Used, err
}

func (s *Store) used(ctx context.Context, namespace string) (sum Summary, err error) {
	for i, parts := 0, 1; i < parts; i++ {
		d, err := get(ctx, s.usedRef(namespace, i), "part", shape[usedDoc])
		if problem.Is(err, problem.NotFound) {
			break
		}
		if err != nil {
			return sum, err
		}
		if i == 0 {
			parts, sum.Attention = d.Parts, d.Attention
		}
		for part := range slices.Chunk(d.Used, apikey.PrefixLength) {
			sum.Used = append(sum.Used, apikey.Prefix(part))
		}
	}
	return sum, nil
}

// Summary returns the summary of an environment. ok is false until rollup has compared all keys
// once, and while rollup does not run.
func (s *Store) Summary(ctx context.Context, namespace string) (sum Summary, ok bool, err error) {
	if ok, err = s.KeyListReady(ctx); !ok || err != nil {
		return sum, false, err
	}
	state, err := s.KeyList(ctx)
	if err != nil || state.Settled == 0 {
		return sum, false, err
	}
	if sum, err = s.used(ctx, namespace); err != nil {
		return sum, false, err
	}
	sum.Settled = state.Settled
	d, err := orZero(get(ctx, s.summaryRef(namespace), "summary", shape[summaryDoc]))
	if err == nil {
		sum.Days, err = usage.UnpackHistory(d.Days)
		sum.Busiest = d.Busiest
	}
	return sum, err == nil, err
}

// CountKeys counts the keys of a search without Text and App, at one document read per 1,000 keys.
func (s *Store) CountKeys(ctx context.Context, q KeySearch) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return count(ctx, s.searched(q, KeyPlace{}))
}
