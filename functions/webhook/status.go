package webhook

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// waiters is the maximum number of waiting calls. Further calls return at once.
	waiters = 64
)

// startedWork is the build or revision that a call has started; the other number is 0.
type startedWork struct{ build, revision int64 }

func (b startedWork) statusURL(base string, ref app.Ref) string {
	row, number := api.GetWebhookDeployment.Row, b.revision
	if b.build > 0 {
		row, number = api.GetWebhookBuild.Row, b.build
	}
	return base + row.URL(url.PathEscape, ref.Namespace, ref.Name, strconv.FormatInt(number, 10))
}

// showStatus serves the status of a build or a revision. It does not use up a pipeline's token.
func (s *Service) showStatus(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	ref := appOf(in)
	if err := s.mayRead(r, ref); err != nil {
		return s.reject(w, r, err)
	}
	what := startedWork{build: in.Number("build"), revision: in.Number("revision")}
	got, _, err := s.progress(r.Context(), ref, what)
	if err != nil {
		return err
	}
	if wait := httpapi.PreferredWait(r.Header, s.maxWait); wait > 0 && !ended(got) {
		got, _ = s.await(w, r, ref, what, wait, got)
	}
	got.StatusURL = what.statusURL(in.BaseURL(s.baseURL), ref)
	return httpapi.WriteJSON(w, http.StatusOK, got)
}

// mayRead verifies the caller's token. A signature is rejected, because there is no body to sign.
func (s *Service) mayRead(r *http.Request, ref app.Ref) error {
	claim, ok := hook.ClaimOf(r.Header)
	if !ok {
		_, _, err := s.identify(r, ref, s.reads)
		return err
	}
	if !claim.CarriesToken() {
		return problem.FromCode(problem.InvalidToken)
	}
	_, err := s.admit(r.Context(), ref, s.reads, claim, func(t hook.Token) bool { return claim.Proves(t, nil) })
	return err
}

func appOf(in httpapi.Scope) app.Ref {
	return app.Ref{Namespace: in.Param("namespace"), Name: in.Param("app")}
}

// progress reads the status of a build or a revision. idle is true if the workload is scaled to
// zero; the revision then waits until it is scaled up.
func (s *Service) progress(ctx context.Context, ref app.Ref, what startedWork) (got wire.WebhookStatus, idle bool, err error) {
	if what.build == 0 {
		return s.rollout(ctx, ref, what.revision)
	}
	b, err := s.apps.Build(ctx, ref, what.build)
	if err != nil {
		return wire.WebhookStatus{}, false, err
	}
	got = wire.WebhookStatus{Status: wire.HookBuilding, Build: wire.Ordinal(b.Number), Commit: b.Commit, Message: wire.Text(b.Message)}
	switch b.Status {
	case deploy.Succeeded:
		got, idle, err = s.rollout(ctx, ref, b.Revision)
		got.Build = wire.Ordinal(b.Number)
	case deploy.BuildFailed:
		got.Status = wire.HookFailed
	case deploy.BuildSuperseded:
		got.Status = wire.HookSuperseded
	case deploy.Queued, deploy.Running:
	}
	return got, idle, err
}

func (s *Service) rollout(ctx context.Context, ref app.Ref, revision int64) (got wire.WebhookStatus, idle bool, err error) {
	rev, err := s.apps.Deployment(ctx, ref, revision)
	if err != nil {
		return wire.WebhookStatus{}, false, err
	}
	return wire.WebhookStatus{Status: string(rev.Status), Revision: wire.Ordinal(rev.Number), Image: wire.Text(rev.Image), Commit: rev.Commit, Message: wire.Text(rev.DisplayMessage())}, rev.AppStatus() == deploy.Idle, nil
}

func ended(got wire.WebhookStatus) bool {
	return got.Status != wire.HookBuilding && got.Status != string(deploy.RollingOut)
}

// await waits until the work has ended, its revision is idle, d has passed, the client
// disconnects or the process stops. It returns the last known status. It ignores store errors,
// because they do not stop the work.
func (s *Service) await(w http.ResponseWriter, r *http.Request, ref app.Ref, what startedWork, d time.Duration, got wire.WebhookStatus) (last wire.WebhookStatus, over bool) {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return got, false
	}
	httpapi.Extend(w, d, s.clock())
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for {
		now, idle, err := s.progress(ctx, ref, what)
		if problem.Is(err, problem.NotFound) { // the app was deleted
			return got, false
		}
		if err == nil {
			if got = now; ended(got) || idle {
				return got, ended(got)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got, false
		case <-s.ending:
			return got, false
		}
	}
}
