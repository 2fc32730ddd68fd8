package deploys

import (
	"context"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// recordAttempts is how often a rollback without a number starts over because
	// another deployment came between.
	recordAttempts = 8

	// lookBack is how many revisions of a history are read at a time.
	lookBack = 20
)

// rollback deploys an earlier revision again. Problems: no_previous_revision,
// not_found.
func (s *Service) rollback(w http.ResponseWriter, r *http.Request) error {
	a, caller, err := s.app(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.DecodeOptional[wire.Rollback](w, r)
	if err != nil {
		return err
	}
	if in.Revision != nil {
		source, err := s.revision(r.Context(), a.Ref(), *in.Revision)
		if err != nil {
			return err
		}
		rev := source.Copy(deploy.Rollback, caller.Username, s.moment())
		return s.record(w, r, a.Ref(), func(app.App, deploy.Revision) (deploy.Revision, error) { return rev, nil })
	}
	for try := 1; ; try++ {
		err = s.rollbackFrom(w, r, a, caller.Username)
		if !problem.Is(err, problem.Conflict) || try == recordAttempts {
			return err
		}
		if a, err = s.apps.App(r.Context(), a.Namespace, a.Name); err != nil {
			return err
		}
	}
}

// rollbackFrom rolls back to the last revision before the app's current one that was
// once live. Problem: conflict when that is not the current one any more.
func (s *Service) rollbackFrom(w http.ResponseWriter, r *http.Request, a app.App, actor string) error {
	source, err := s.newest(r.Context(), a.Ref(), a.Revision-1, deploy.Revision.WasLive)
	if err != nil {
		return err
	}
	return s.record(w, r, a.Ref(), func(_ app.App, current deploy.Revision) (deploy.Revision, error) {
		if current.Number != a.Revision {
			return deploy.Revision{}, problem.Of(problem.Conflict)
		}
		return source.Copy(deploy.Rollback, actor, s.moment()), nil
	})
}

// revision reads a revision by the number that a client gave. Problem: not_found.
func (s *Service) revision(ctx context.Context, ref app.Ref, n int64) (deploy.Revision, error) {
	if n < 1 {
		return deploy.Revision{}, problem.New(problem.NotFound, "There is no such revision.")
	}
	return s.history.Deployment(ctx, ref, n)
}

// newest finds the newest revision up to a number that is as asked for. Problem:
// no_previous_revision.
func (s *Service) newest(ctx context.Context, ref app.Ref, upTo int64, is func(deploy.Revision) bool) (deploy.Revision, error) {
	page := store.Page{Size: lookBack}
	for {
		revisions, next, err := s.history.Deployments(ctx, ref, page)
		if err != nil {
			return deploy.Revision{}, err
		}
		for _, rev := range revisions {
			if rev.Number <= upTo && is(rev) {
				return rev, nil
			}
		}
		if next == "" {
			return deploy.Revision{}, problem.Of(problem.NoPreviousRevision)
		}
		page.Token = next
	}
}
