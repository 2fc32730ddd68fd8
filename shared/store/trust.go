package store

import (
	"context"
	"slices"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// AddTrust allows pipelines to deploy an app. It returns already_exists if another trust differs
// only in its ID, and too_many_trusts.
func (s *Store) AddTrust(ctx context.Context, ref app.Ref, t app.Trust) error {
	return s.changeTrusts(ctx, ref, audit.AddTrust, t.ID, func(trusts []app.Trust) ([]app.Trust, error) {
		switch {
		case slices.ContainsFunc(trusts, t.Same):
			return nil, problem.New(problem.AlreadyExists, "The app already trusts these pipelines.")
		case len(trusts) >= app.MaxTrusts:
			return nil, problem.FromCode(problem.TooManyTrusts)
		}
		return append(trusts, t), nil
	})
}

// RemoveTrust removes a trust. Its pipelines can no longer deploy.
func (s *Store) RemoveTrust(ctx context.Context, ref app.Ref, id string) error {
	return s.changeTrusts(ctx, ref, audit.RemoveTrust, id, func(trusts []app.Trust) ([]app.Trust, error) {
		left := slices.DeleteFunc(slices.Clone(trusts), func(t app.Trust) bool { return t.ID == id })
		if len(left) == len(trusts) {
			return nil, problem.New(problem.NotFound, "The trust does not exist.")
		}
		return left, nil
	})
}

func (s *Store) changeTrusts(ctx context.Context, ref app.Ref, action audit.Action, id string, change func([]app.Trust) ([]app.Trust, error)) error {
	return s.transactSerially(ctx, string(action)+" of "+ref.String(), s.appRef(ref), func(ctx context.Context, tx fire.Tx, b *batch) error {
		before, err := txGet(tx, s.appRef(ref), "app", decode[appDoc])
		if err != nil {
			return err
		}
		trusts, err := change(before.Trusts)
		if err != nil {
			return err
		}
		b.Update(s.appRef(ref), fire.Fields{"trusts": trusts})
		s.record(ctx, b, audit.Change{
			Action: action, Project: before.Project, Resource: audit.Path(appPath(before), "webhook", "trusts", id),
			Old: trustView(before.Trusts, id), New: trustView(trusts, id),
		})
		return nil
	})
}

func trustView(trusts []app.Trust, id string) audit.Values {
	for _, t := range trusts {
		if t.ID == id {
			return audit.Values{"provider": string(t.Provider), "issuer": t.Issuer, "audience": t.Audience, "claims": t.Claims}
		}
	}
	return nil
}
