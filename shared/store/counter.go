package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
)

// counterDoc is a document of counters/{day}.{source}.{shard}.
type counterDoc struct {
	Day    string `firestore:"day"` // YYYY-MM-DD
	Source string `firestore:"source"`
	Shard  int64  `firestore:"shard"`
	Counts []byte `firestore:"counts"` // usage.Packed; not indexed
}

// CounterVersion is the write of a counter that the next one builds on; the
// zero version is that of a counter not written yet.
type CounterVersion struct{ at time.Time }

// Time is when the version was committed, by the store's clock, as [Batch.At] is.
func (v CounterVersion) Time() time.Time { return v.at }

func (s *Store) counters() *firestore.CollectionRef { return s.client.Collection("counters") }

func (s *Store) counterRef(day usage.Day, source usage.Source, shard int) *firestore.DocumentRef {
	return s.counters().Doc(counterDocument(day, source, shard))
}

func counterDocument(day usage.Day, source usage.Source, shard int) string {
	return day.String() + "." + string(source) + "." + strconv.Itoa(shard)
}

// WriteCounter writes a source's shard as it now is, on top of the version that
// the source wrote last. A write that was given up on and comes through late
// finds another version there and changes nothing, so totals never go back.
// Problem: conflict when base is not what is stored; ask [Store.CounterVersion].
func (s *Store) WriteCounter(ctx context.Context, c usage.Counter, base CounterVersion) (CounterVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ref := s.counterRef(c.Day, c.Source, c.Shard)
	var res *firestore.WriteResult
	var err error
	if base == (CounterVersion{}) {
		res, err = ref.Create(ctx, counterDoc{Day: c.Day.String(), Source: string(c.Source), Shard: int64(c.Shard), Counts: c.Counts})
	} else {
		res, err = ref.Update(ctx, []firestore.Update{{Path: "counts", Value: []byte(c.Counts)}}, firestore.LastUpdateTime(base.at))
	}
	if err != nil {
		return CounterVersion{}, fmt.Errorf("write counter %s: %w", ref.ID, known(err, "counter"))
	}
	return CounterVersion{res.UpdateTime}, nil
}

// CounterVersion asks which version of a counter is stored.
func (s *Store) CounterVersion(ctx context.Context, day usage.Day, source usage.Source, shard int) (CounterVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	snap, err := s.counterRef(day, source, shard).Get(ctx)
	if problem.Is(known(err, "counter"), problem.NotFound) {
		return CounterVersion{}, nil
	}
	if err != nil {
		return CounterVersion{}, fmt.Errorf("ask for a counter's version: %w", known(err, "counter"))
	}
	return CounterVersion{snap.UpdateTime}, nil
}

// heardCounter reads a counter's document as a listener hears it.
func heardCounter(id string, f fields) (usage.Counter, error) {
	r := reader{fields: f}
	c := usage.Counter{
		Source: usage.Source(r.text("source")),
		Shard:  int(r.integer("shard")),
		Counts: r.bytesOf("counts"),
	}
	day := r.text("day")
	if r.err != nil {
		return usage.Counter{}, r.err
	}
	var err error
	if c.Day, err = usage.ParseDay(day); err != nil {
		return usage.Counter{}, err
	}
	if id != counterDocument(c.Day, c.Source, c.Shard) {
		return usage.Counter{}, errOtherID
	}
	return c, c.Counts.Check()
}

// VersionAt is the version of a write at a time: for stores that stand in for
// this one where faults are injected.
func VersionAt(t time.Time) CounterVersion { return CounterVersion{t} }
