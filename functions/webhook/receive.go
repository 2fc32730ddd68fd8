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
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

// actor is the name in the deployment history of callers that use the app's token.
const actor = "webhook"

func (s *Service) receive(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	ref := appOf(in)
	p, free, err := s.prove(w, r, ref)
	defer free()
	var answer hook.StoredResponse
	var fresh bool
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		answer, fresh, err = s.perform(r, ref, p)
	} else if !p.verified {
		err = s.reject(w, r, err)
	}
	result := hook.ResultOf(answer, fresh, err)
	s.outcomes.WithLabelValues(string(result)).Inc()
	if !p.verified {
		result = hook.Unproven // even if rejected for its body or rate
	}
	s.remember(r, ref, answer, result, err)
	if err != nil {
		return err
	}
	return s.reply(w, r, in, answer, fresh)
}

// reject counts an unverified request against its address and hides why it was rejected.
func (s *Service) reject(w http.ResponseWriter, r *http.Request, err error) error {
	if !problem.Is(err, problem.InvalidToken) {
		return err
	}
	s.readWithin(w, unverifiedRead)
	if err := s.refusals.take(reqctx.Network(r.Context()), s.now()); err != nil {
		return err
	}
	return problem.FromCode(problem.InvalidToken)
}

// perform records the work of a verified call and notifies the function that does it. fresh is
// false for a repeated delivery.
func (s *Service) perform(r *http.Request, ref app.Ref, p proof) (answer hook.StoredResponse, fresh bool, err error) {
	reqctx.SetActor(r.Context(), reqctx.Actor{Kind: reqctx.Webhook, Name: p.actor})
	call, err := readCall(r, p.body)
	if err != nil {
		return answer, false, err
	}
	d := hook.CallID{}
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

// record stores the work of a verified call, unless its delivery is already recorded. It returns
// an invalid_token problem if the app was deleted or no longer trusts the pipeline.
func (s *Service) record(ctx context.Context, ref app.Ref, call hook.Call, d hook.CallID, by proof) (hook.StoredResponse, bool, error) {
	now := s.timestamp()
	c, err := s.resolve(ctx, ref, call)
	if err != nil {
		return hook.StoredResponse{}, false, hideMissing(err)
	}
	answer, fresh, err := s.apps.Receive(ctx, ref, d, now, func(a app.App) (hook.RecordedWork, error) {
		if by.pipeline != nil {
			if _, ok := app.FirstMatch(a.Trusts, *by.pipeline); !ok {
				return hook.RecordedWork{}, problem.FromCode(problem.InvalidToken)
			}
		}
		return c.outcome(a, call, by.actor, now)
	})
	return answer, fresh, hideMissing(err)
}

// hideMissing replaces a not_found problem: a missing app must look like one without a webhook.
func hideMissing(err error) error {
	if problem.Is(err, problem.NotFound) {
		return problem.FromCode(problem.InvalidToken).WithCause(err)
	}
	return err
}

func (s *Service) pass(ctx context.Context, ref app.Ref, a hook.StoredResponse) {
	switch a.Action {
	case hook.Deploy:
		s.deploys.Notify(ctx, app.DeployRequested, ref)
	case hook.Build:
		s.builds.Notify(ctx, app.BuildRequested, ref)
	case hook.Ignore, hook.Pong:
	}
}

func readCall(r *http.Request, body []byte) (hook.Call, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return hook.Call{}, problem.FromCode(problem.UnsupportedMediaType)
	}
	if event := hook.EventOf(r.Header); event != hook.NoEvent {
		return hook.ParseEvent(event, body)
	}
	return parseCall(body)
}

// parseCall parses the body of a CI pipeline's call. It does not check the image, because an app
// with a git source rejects every image.
func parseCall(body []byte) (hook.Call, error) {
	var in wire.WebhookCall
	if err := httpapi.UnmarshalKnown(body, &in); err != nil {
		return hook.Call{}, err
	}
	commit, err := hook.ParseCommit(httpapi.Deref(in.Commit))
	return hook.Call{Image: httpapi.Deref(in.Image), Commit: commit}, err
}

type content struct {
	digest, note string
	registries   []string // allowed by the project
}

// resolve resolves the image's digest. It runs before the transaction, which must not wait for
// other systems. If the app's git source is removed in between, the deployment has no digest.
func (s *Service) resolve(ctx context.Context, ref app.Ref, call hook.Call) (content, error) {
	if call.Image == "" || registry.Check(call.Image) != nil {
		return content{}, nil //nolint:nilerr // outcome returns the problem
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

func (c content) outcome(a app.App, call hook.Call, actor string, now time.Time) (hook.RecordedWork, error) {
	d, err := hook.Decide(a, call)
	if err != nil {
		return hook.RecordedWork{}, err
	}
	out := hook.RecordedWork{Decision: d}
	switch d.Action {
	case hook.Deploy:
		if err := registry.Check(d.Image); err != nil {
			return hook.RecordedWork{}, err
		}
		if err := registry.CheckRegistry(d.Image, c.registries); err != nil {
			return hook.RecordedWork{}, err
		}
		out.Revision = deploy.New(d.Image, c.digest, deploy.Webhook, actor, now)
		out.Revision.Commit, out.Revision.Note = d.Commit, c.note
	case hook.Build:
		out.Build = deploy.NewBuild(*a.GitSource, d.Commit, deploy.Webhook, actor, now)
	case hook.Ignore, hook.Pong:
	}
	return out, nil
}

func (s *Service) reply(w http.ResponseWriter, r *http.Request, in httpapi.Scope, a hook.StoredResponse, fresh bool) error {
	if !fresh {
		w.Header().Set(api.Replayed, "true")
	}
	switch a.Action {
	case hook.Deploy:
		first := wire.WebhookStatus{Status: string(deploy.RollingOut), Revision: wire.Ordinal(a.Revision), Image: wire.Text(a.Image), Commit: a.Commit}
		return s.replyStarted(w, r, in, startedWork{revision: a.Revision}, first)
	case hook.Build:
		return s.replyStarted(w, r, in, startedWork{build: a.Build}, wire.WebhookStatus{Status: wire.HookBuilding, Build: wire.Ordinal(a.Build), Commit: a.Commit})
	case hook.Ignore:
		return httpapi.WriteJSON(w, http.StatusAccepted, wire.WebhookIgnored{Status: "ignored", Reason: a.Reason})
	case hook.Pong:
		return httpapi.WriteJSON(w, http.StatusOK, wire.WebhookPong{Status: "pong"})
	}
	return fmt.Errorf("unknown action %q", a.Action)
}

// replyStarted responds with 202, or with 200 and the result if the work ended while the call
// waited.
func (s *Service) replyStarted(w http.ResponseWriter, r *http.Request, in httpapi.Scope, what startedWork, first wire.WebhookStatus) error {
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
	return httpapi.WriteJSON(w, status, got)
}

func newOutcomes() *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_calls_total", Help: "Webhook calls by result.",
	}, []string{"outcome"})
	for _, r := range hook.Results() {
		calls.WithLabelValues(string(r))
	}
	return calls
}

// Collectors returns the function's metrics.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.outcomes, s.receipts.outcomes}
}
