package keys

import (
	"context"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
)

// releaseQuota releases the part of a hard quota that lost checkers hold. It returns a quota_held
// problem if all holders may still allow requests.
func (s *Service) releaseQuota(ctx context.Context, in httpapi.Scope, _ api.Empty) (wire.ReleasedQuota, error) {
	id, err := keyID(in)
	if err != nil {
		return wire.ReleasedQuota{}, err
	}
	k, err := s.store.Key(ctx, id)
	if err == nil {
		err = belongs(k, in.Project)
	}
	if err != nil {
		return wire.ReleasedQuota{}, err
	}
	p, err := s.store.Plan(ctx, k.Namespace, k.Plan)
	if err != nil || !p.Hard {
		return wire.ReleasedQuota{}, err // only hard quotas are leased
	}
	reading, err := s.counted.Read(ctx, []apikey.Prefix{k.Prefix}, s.now)
	if err != nil {
		return wire.ReleasedQuota{}, err
	}
	now := s.now()
	used := usagequery.QuotaUse(reading.Histories[0], p.Limits, now).Used
	r, err := s.store.ReleaseLeases(ctx, k, usage.QuotaPeriodAt(k.Prefix, p.Period, now), int64(used)) //nolint:gosec // requests of one key
	if err == nil && r.Requests == 0 && r.Held > 0 {
		err = problem.FromCode(problem.QuotaHeld)
	}
	return wire.ReleasedQuota{Released: r.Requests, Held: r.Held}, err
}
