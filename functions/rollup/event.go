package rollup

import (
	"context"
	"errors"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/funcmain"
)

// Receive does a run for each ping. Other events are none of ours and are taken
// without a word to the sender, who would only send them again; so is a ping
// during a run. The error of a run makes the sender try again.
func (s *Service) Receive(ctx context.Context, e cloudevents.Event) error {
	if e.Type() != funcmain.PingType {
		s.Log.WarnContext(ctx, "event ignored", "type", e.Type(), "source", e.Source())
		return nil
	}
	err := s.Once(ctx)
	if errors.Is(err, ErrBusy) {
		return nil
	}
	return err
}

// Once does one run and logs what it did.
func (s *Service) Once(ctx context.Context) error {
	began := s.now()
	r, err := s.Run(ctx)
	log := s.Log.With("days", r.Days, "settled", r.Settled, "counters", r.Counters, "rollups", r.Rollups,
		"deleted", r.Deleted, "pruned", r.Pruned, "canaries", r.Canaries, "audit_records", r.Records, "took_ms", s.now().Sub(began)/time.Millisecond)
	if !errors.Is(err, ErrBusy) {
		s.gauges.ran(err, s.now())
	}
	switch {
	case errors.Is(err, ErrBusy):
		s.Log.WarnContext(ctx, "run skipped: the one before is under way")
	case err != nil:
		log.ErrorContext(ctx, "run failed", "error", err)
	default:
		log.InfoContext(ctx, "run done")
	}
	return err
}
