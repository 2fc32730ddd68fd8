package keys

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// wireKeys gives keys as they are shown, with the last day each was seen, which
// takes one call for all of them. The rollup knows of a key's first request of a
// day within a minute.
func (s *Service) wireKeys(ctx context.Context, keys []apikey.Key, now time.Time) ([]wire.Key, error) {
	prefixes := make([]apikey.Prefix, len(keys))
	for i, k := range keys {
		prefixes[i] = k.Prefix
	}
	histories, err := s.usage.Rollups(ctx, prefixes)
	if err != nil {
		return nil, err
	}
	today := usage.DayOf(now)
	out := make([]wire.Key, len(keys))
	for i, k := range keys {
		out[i] = wireKey(k, now)
		if last, ok := histories[i].LastSeen(today); ok {
			day := last.String()
			out[i].LastSeen = &day
		}
	}
	return out, nil
}

// changed gives a key that was just changed as it is shown. The change is made
// and must be answered as such, a new secret above all: when it cannot be read
// when the key was last seen, the answer goes without.
func (s *Service) changed(ctx context.Context, k apikey.Key, now time.Time) wire.Key {
	out, err := s.wireKeys(ctx, []apikey.Key{k}, now)
	if err != nil {
		s.log.WarnContext(ctx, "last seen day not read", "key_id", string(k.ID()), "error", err)
		return wireKey(k, now)
	}
	return out[0]
}
