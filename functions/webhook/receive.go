package webhook

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// actor is who the history says made what a call asked for that was proven by the app's
// token: that is no person's, and no pipeline's.
const actor = "webhook"

// receive handles a call: it verifies, records and passes on what the call asks for, keeps a
// receipt, and responds.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	ref := appOf(in)
	p, free, err := s.prove(w, r, ref)
	defer free()
	var answer hook.Answer
	var fresh bool
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the body has been read
		answer, fresh, err = s.perform(r, ref, p)
	} else if !p.verified {
		err = s.reject(w, r, err)
	}
	result := hook.ResultOf(answer, fresh, err)
	s.outcomes.WithLabelValues(string(result)).Inc()
	if !p.verified {
		result = hook.Unproven // also if it was rejected for its body or rate
	}
	s.remember(r, ref, answer, result, err)
	if err != nil {
		return err
	}
	return s.reply(w, r, in, answer, fresh)
}

// reject counts an unproven request against the address that it comes from, never against the
// app. Problems: invalid_token, always the same; rate_limited; others as they are.
func (s *Service) reject(w http.ResponseWriter, r *http.Request, err error) error {
	if !problem.Is(err, problem.InvalidToken) {
		return err
	}
	s.readWithin(w, unprovenRead)
	if err := s.refusals.take(trace.Network(r.Context()), s.now()); err != nil {
		return err
	}
	return problem.Of(problem.InvalidToken)
}

// perform records what a proven call asks for and notifies the function that continues. fresh
// is false if an earlier call with the same delivery id recorded it.
func (s *Service) perform(r *http.Request, ref app.Ref, p proof) (answer hook.Answer, fresh bool, err error) {
	trace.Identify(r.Context(), trace.Actor{Kind: trace.Webhook, Name: p.actor})
	call, err := readCall(r, p.body)
	if err != nil {
		return answer, false, err
	}
	d := hook.Delivery{}
	if id := hook.DeliveryOf(r.Header); id != "" {
		d = hook.NewDelivery(ref, id, p.body)
	}
	if p.pipeline != nil {
		d.Token = hook.NewSpent(*p.pipeline)
	}
	answer, fresh, err = s.record(r.Context(), ref, call, d, p)
	if err != nil {
		return answer, false, err
	}
	if fresh {
		s.pass(r.Context(), ref, answer)
	}
	s.log.InfoContext(r.Context(), "webhook called", "app", ref.String(), "actor", p.actor,
		"event", string(call.Event), "action", string(answer.Action), "revision", answer.Revision, "build", answer.Build, "replayed", !fresh)
	return answer, fresh, nil
}

// record does what a proven call asks for, unless its delivery did before.
// Problems: those of [hook.Decide] and of the store, and invalid_token when the
// Secret has outlived its app, or the app has ceased to trust the pipeline.
func (s *Service) record(ctx context.Context, ref app.Ref, call hook.Call, d hook.Delivery, by proof) (hook.Answer, bool, error) {
	now := s.moment()
	c, err := s.resolve(ctx, ref, call)
	if err != nil {
		return hook.Answer{}, false, unknown(err)
	}
	answer, fresh, err := s.apps.Receive(ctx, ref, d, now, func(a app.App) (hook.Outcome, error) {
		if by.pipeline != nil {
			if _, ok := app.Admitting(a.Trusts, *by.pipeline); !ok {
				return hook.Outcome{}, problem.Of(problem.InvalidToken)
			}
		}
		return c.outcome(a, call, by.actor, now)
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
	var in wire.WebhookCall
	if err := httpapi.UnmarshalKnown(body, &in); err != nil {
		return hook.Call{}, err
	}
	commit, err := hook.ParseCommit(httpapi.Given(in.Commit))
	return hook.Call{Image: httpapi.Given(in.Image), Commit: commit}, err
}

// content holds the facts about the call's image that its deployment needs.
type content struct {
	digest, note string
	registries   []string // that the app's project allows
}

// resolve asks the registry about the call's image, if that is going to be
// deployed. It comes before the transaction, which must not wait for strangers; a
// call that becomes a deployment in between goes without a digest.
func (s *Service) resolve(ctx context.Context, ref app.Ref, call hook.Call) (content, error) {
	if call.Image == "" || registry.Check(call.Image) != nil {
		return content{}, nil //nolint:nilerr // outcome says what is wrong with it
	}
	a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return content{}, err
	}
	p, err := s.apps.Project(ctx, a.Project)
	if err != nil {
		return content{}, err
	}
	c := content{registries: p.Registries}
	if a.Kind() != app.ImageApp || registry.CheckRegistry(call.Image, c.registries) != nil {
		return c, nil //nolint:nilerr // outcome returns the problem
	}
	c.digest, c.note = s.registry.Resolve(ctx, call.Image)
	return c, nil
}

// outcome is what a call adds to an app. Problems: those of [hook.Decide],
// invalid_image.
func (c content) outcome(a app.App, call hook.Call, actor string, now time.Time) (hook.Outcome, error) {
	d, err := hook.Decide(a, call)
	if err != nil {
		return hook.Outcome{}, err
	}
	out := hook.Outcome{Decision: d}
	switch d.Action {
	case hook.Deploy:
		if err := registry.Check(d.Image); err != nil {
			return hook.Outcome{}, err
		}
		if err := registry.CheckRegistry(d.Image, c.registries); err != nil {
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
		w.Header().Set(api.Replayed, "true")
	}
	switch a.Action {
	case hook.Deploy:
		first := wire.WebhookStatus{Status: string(deploy.RollingOut), Revision: wire.Ordinal(a.Revision), Image: wire.Text(a.Image), Commit: a.Commit}
		return s.replyBegun(w, r, in, begun{revision: a.Revision}, first)
	case hook.Build:
		return s.replyBegun(w, r, in, begun{build: a.Build}, wire.WebhookStatus{Status: wire.HookBuilding, Build: wire.Ordinal(a.Build), Commit: a.Commit})
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

func newOutcomes() *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_calls_total", Help: "Calls of webhooks, by what came of them.",
	}, []string{"outcome"})
	for _, r := range hook.Results() {
		calls.WithLabelValues(string(r))
	}
	return calls
}

// Collectors are the function's own metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.outcomes, s.receipts.outcomes}
}
