package store

import (
	"context"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
)

// Canary is a document that a checker replica writes only to see it come back
// through a listener (specification section 3.3). It lives in the very
// collection that the listener hears, as "canary.{replica}", and belongs to no
// namespace, so it never shows in a list.
type Canary struct {
	Replica string // the writer's name, e.g. "checker-7d9f-x2x"
	Run     string // random per process: echoes for another run prove nothing
	Seq     int64  // counts up from 1 within a run
}

// CanaryType is one of the three data types that a replica proves to see.
type CanaryType string

// The data types of specification section 3.3, by their collections.
const (
	CanaryKeys     CanaryType = "keys"
	CanaryPlans    CanaryType = "plans"
	CanaryCounters CanaryType = "counters"
)

const canaryMark = "canary."

// canaryStatus is what canaries among keys have for a status, so that the listener
// which leaves revoked keys out hears them.
const canaryStatus = "canary"

func isCanary(id string) bool { return strings.HasPrefix(id, canaryMark) }

type canaryDoc struct {
	Run    string `firestore:"run"`
	Seq    int64  `firestore:"seq"`
	Status string `firestore:"status,omitempty"` // among keys
}

func (s *Store) canaryRef(t CanaryType, replica string) *firestore.DocumentRef {
	return s.client.Collection(string(t)).Doc(canaryMark + replica)
}

// WriteCanary writes c among the documents of type t. The caller sets the deadline.
func (s *Store) WriteCanary(ctx context.Context, t CanaryType, c Canary) error {
	d := canaryDoc{Run: c.Run, Seq: c.Seq}
	if t == CanaryKeys {
		d.Status = canaryStatus
	}
	if _, err := s.canaryRef(t, c.Replica).Set(ctx, d); err != nil {
		return fmt.Errorf("write canary among %s: %w", t, known(err, "canary"))
	}
	return nil
}

// DeleteCanary removes a replica's canary. The caller sets the deadline.
func (s *Store) DeleteCanary(ctx context.Context, t CanaryType, replica string) error {
	if _, err := s.canaryRef(t, replica).Delete(ctx); err != nil {
		return fmt.Errorf("delete canary among %s: %w", t, known(err, "canary"))
	}
	return nil
}

func decodeCanary(id string, f fields) (Canary, error) {
	r := reader{fields: f}
	c := Canary{Replica: strings.TrimPrefix(id, canaryMark), Run: r.text("run"), Seq: r.integer("seq")}
	return c, r.err
}
