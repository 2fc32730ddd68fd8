package webhook

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/image"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// actor is who the history says made what a call asked for: a token is the app's
// and no person's.
const actor = "webhook"

// replayedHeader marks the answer of a delivery that came before.
const replayedHeader = "Idempotent-Replayed"

// receive takes a call.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	ref := appOf(in)
	answer, fresh, err := s.take(w, r, ref)
	if err != nil {
		s.outcomes.WithLabelValues(failure(err)).Inc()
		return err
	}
	s.outcomes.WithLabelValues(taken(answer, fresh)).Inc()
	return s.reply(w, r, in, answer, fresh)
}

// take does what a call asks for, and tells what that was.
func (s *Service) take(w http.ResponseWriter, r *http.Request, ref app.Ref) (answer hook.Answer, fresh bool, err error) {
	body, free, err := s.prove(w, r, ref)
	defer free()
	if err != nil {
		return hook.Answer{}, false, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body is in; only hanging up is still to come
	trace.Identify(r.Context(), trace.Actor{Kind: trace.Webhook, Name: actor})
	call, err := readCall(r, body)
	if err != nil {
		return hook.Answer{}, false, err
	}
	d := hook.Delivery{}
	if id := hook.DeliveryOf(r.Header); id != "" {
		d = hook.NewDelivery(ref, id, body)
	}
	answer, fresh, err = s.record(r.Context(), ref, call, d)
	if err != nil {
		return hook.Answer{}, false, err
	}
	if fresh {
		s.pass(r.Context(), ref, answer)
	}
	s.log.InfoContext(r.Context(), "webhook called", "app", ref.String(),
		"event", string(call.Event), "action", string(answer.Action), "revision", answer.Revision, "build", answer.Build, "replayed", !fresh)
	return answer, fresh, nil
}

// record does what a proven call asks for, unless its delivery did before.
// Problems: those of [hook.Decide] and of the store, and invalid_token when the
// Secret has outlived its app.
func (s *Service) record(ctx context.Context, ref app.Ref, call hook.Call, d hook.Delivery) (hook.Answer, bool, error) {
	now := s.moment()
	c, err := s.resolve(ctx, ref, call)
	if err != nil {
		return hook.Answer{}, false, unknown(err)
	}
	answer, fresh, err := s.apps.Receive(ctx, ref, d, now, func(a app.App) (hook.Outcome, error) {
		return c.outcome(a, call, now)
	})
	return answer, fresh, unknown(err)
}

// unknown makes an app that is not there look like one without a webhook.
func unknown(err error) error {
	if problem.Is(err, problem.NotFound) {
		return problem.Of(problem.InvalidToken).Because(err)
	}
	return err
}

// pass tells the function that goes on with what was recorded.
func (s *Service) pass(ctx context.Context, ref app.Ref, a hook.Answer) {
	switch a.Action {
	case hook.Deploy:
		s.deploys.Notify(ctx, app.DeployRequested, ref)
	case hook.Build:
		s.builds.Notify(ctx, app.BuildRequested, ref)
	case hook.Ignore, hook.Pong:
	}
}

// readCall reads what a proven request says. Problems: unsupported_media_type,
// malformed_json, wrong_type, missing_field, invalid_commit.
func readCall(r *http.Request, body []byte) (hook.Call, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return hook.Call{}, problem.Of(problem.UnsupportedMediaType)
	}
	if event := hook.EventOf(r.Header); event != hook.NoEvent {
		return hook.ParseEvent(event, body)
	}
	return parseCall(body)
}

// parseCall reads the body of a CI pipeline's call; "" and null stand for a field
// left out, and what it holds besides is ignored. The image is looked at where it is deployed: for a git app any image,
// good or bad, is git_source_attached.
func parseCall(body []byte) (hook.Call, error) {
	var in *wire.WebhookCall
	if err := httpapi.UnmarshalKnown(body, &in); err != nil {
		return hook.Call{}, err
	}
	if in == nil {
		return hook.Call{}, problem.New(problem.WrongType, "The request body must be a JSON object.")
	}
	commit, err := hook.ParseCommit(given(in.Commit))
	return hook.Call{Image: given(in.Image), Commit: commit}, err
}

func given(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// content is which bytes the call's image is.
type content struct{ digest, note string }

// resolve asks the registry about the call's image, if that is going to be
// deployed. It comes before the transaction, which must not wait for strangers; a
// call that becomes a deployment in between goes without a digest.
func (s *Service) resolve(ctx context.Context, ref app.Ref, call hook.Call) (content, error) {
	if call.Image == "" || image.Check(call.Image) != nil {
		return content{}, nil //nolint:nilerr // outcome says what is wrong with it
	}
	a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return content{}, err
	}
	if a.Kind() != app.ImageApp {
		return content{}, nil
	}
	digest, note := s.registry.Resolve(ctx, call.Image)
	return content{digest: digest, note: note}, nil
}

// outcome is what a call adds to an app. Problems: those of [hook.Decide],
// invalid_image.
func (c content) outcome(a app.App, call hook.Call, now time.Time) (hook.Outcome, error) {
	d, err := hook.Decide(a, call)
	if err != nil {
		return hook.Outcome{}, err
	}
	out := hook.Outcome{Decision: d}
	switch d.Action {
	case hook.Deploy:
		if err := image.Check(d.Image); err != nil {
			return hook.Outcome{}, err
		}
		out.Revision = deploy.New(d.Image, c.digest, deploy.Webhook, actor, now)
		out.Revision.Commit, out.Revision.Note = d.Commit, c.note
	case hook.Build:
		out.Build = deploy.NewBuild(*a.GitSource, d.Commit, deploy.Webhook, actor, now)
	case hook.Ignore, hook.Pong:
	}
	return out, nil
}

// reply tells a caller what came of the call.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, in httpapi.Scope, a hook.Answer, fresh bool) error {
	if !fresh {
		w.Header().Set(replayedHeader, "true")
	}
	switch a.Action {
	case hook.Deploy:
		first := wire.WebhookStatus{Status: string(deploy.RollingOut), Revision: a.Revision, Image: a.Image, Commit: a.Commit}
		return s.replyBegun(w, r, in, begun{revision: a.Revision}, first)
	case hook.Build:
		return s.replyBegun(w, r, in, begun{build: a.Build}, wire.WebhookStatus{Status: wire.HookBuilding, Build: a.Build, Commit: a.Commit})
	case hook.Ignore:
		return httpapi.JSON(w, http.StatusAccepted, wire.WebhookIgnored{Status: "ignored", Reason: a.Reason})
	case hook.Pong:
		return httpapi.JSON(w, http.StatusOK, wire.WebhookPong{Status: "pong"})
	}
	return fmt.Errorf("no answer to the action %q", a.Action)
}

// replyBegun answers 202 with what was begun, or, to who prefers to wait, 200 with what
// came of it.
func (s *Service) replyBegun(w http.ResponseWriter, r *http.Request, in httpapi.Scope, what begun, first wire.WebhookStatus) error {
	got, status := first, http.StatusAccepted
	if wait := httpapi.PreferredWait(r.Header, s.maxWait); wait > 0 {
		if last, over := s.await(w, r, appOf(in), what, wait, first); over {
			got, status = last, http.StatusOK
			if got.Status == string(deploy.Live) {
				got.Status = wire.HookDeployed
			}
		}
	}
	got.StatusURL = what.statusURL(in.BaseURL(s.baseURL), appOf(in))
	return httpapi.JSON(w, status, got)
}

// Outcomes of calls beside the actions of package hook.
const (
	replayed  = "replayed"  // a delivery that came before
	unproven  = "unproven"  // no token, or a wrong one
	throttled = "throttled" // too many
	refused   = "refused"   // proven, but not acceptable
	broken    = "error"     // the store or the cluster did not answer
)

func newOutcomes() *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_calls_total", Help: "Calls of webhooks, by what came of them.",
	}, []string{"outcome"})
	for _, o := range []string{"deployed", "building", "ignored", "pong", replayed, unproven, throttled, refused, broken} {
		calls.WithLabelValues(o)
	}
	return calls
}

// taken names what came of a call that was taken.
func taken(a hook.Answer, fresh bool) string {
	if !fresh {
		return replayed
	}
	switch a.Action {
	case hook.Deploy:
		return "deployed"
	case hook.Build:
		return "building"
	case hook.Ignore:
		return "ignored"
	case hook.Pong:
	}
	return "pong"
}

// failure names what came of a call that was not.
func failure(err error) string {
	p := problem.From(err)
	switch {
	case p.Code == problem.InvalidToken:
		return unproven
	case p.Code == problem.RateLimited:
		return throttled
	case p.Status() < http.StatusInternalServerError:
		return refused
	}
	return broken
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.outcomes} }
