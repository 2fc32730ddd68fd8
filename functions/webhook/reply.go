package webhook

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/wire"
)

// replayedHeader marks the answer of a delivery that came before.
const replayedHeader = "Idempotent-Replayed"

// reply tells a caller what came of the call.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, ref app.Ref, a hook.Answer, fresh bool) error {
	if !fresh {
		w.Header().Set(replayedHeader, "true")
	}
	switch a.Action {
	case hook.Deploy:
		first := wire.WebhookStatus{Status: string(deploy.RollingOut), Revision: a.Revision, Image: a.Image, Commit: a.Commit}
		return s.replyBegun(w, r, ref, begun{revision: a.Revision}, first)
	case hook.Build:
		return s.replyBegun(w, r, ref, begun{build: a.Build}, wire.WebhookStatus{Status: wire.HookBuilding, Build: a.Build, Commit: a.Commit})
	case hook.Ignore:
		return httpapi.JSON(w, http.StatusAccepted, wire.WebhookIgnored{Status: "ignored", Reason: a.Reason})
	case hook.Pong:
		return httpapi.JSON(w, http.StatusOK, wire.WebhookPong{Status: "pong"})
	}
	return fmt.Errorf("no answer to the action %q", a.Action)
}

// replyBegun answers 202 with what was begun, or, to who prefers to wait, 200 with what
// came of it.
func (s *Service) replyBegun(w http.ResponseWriter, r *http.Request, ref app.Ref, what begun, first wire.WebhookStatus) error {
	got, status := first, http.StatusAccepted
	if wait := s.wait(r.Header); wait > 0 {
		if last, over := s.await(w, r, ref, what, wait, first); over {
			got, status = last, http.StatusOK
			if got.Status == string(deploy.Live) {
				got.Status = wire.HookDeployed
			}
		}
	}
	got.StatusURL = what.statusURL(httpapi.BaseURL(r, s.baseURL), ref)
	return httpapi.JSON(w, status, got)
}
