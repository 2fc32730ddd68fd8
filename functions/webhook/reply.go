package webhook

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/wire"
)

// replayedHeader marks the answer of a delivery that came before.
const replayedHeader = "Idempotent-Replayed"

// reply tells a caller what came of the call.
func reply(w http.ResponseWriter, a hook.Answer, fresh bool) error {
	if !fresh {
		w.Header().Set(replayedHeader, "true")
	}
	switch a.Action {
	case hook.Deploy:
		return httpapi.JSON(w, http.StatusOK, wire.WebhookDeployed{Status: "deployed", Revision: a.Revision, Image: a.Image, Commit: a.Commit})
	case hook.Build:
		return httpapi.JSON(w, http.StatusAccepted, wire.WebhookBuilding{Status: "building", Build: a.Build, Commit: a.Commit})
	case hook.Ignore:
		return httpapi.JSON(w, http.StatusAccepted, wire.WebhookIgnored{Status: "ignored", Reason: a.Reason})
	case hook.Pong:
		return httpapi.JSON(w, http.StatusOK, wire.WebhookPong{Status: "pong"})
	}
	return fmt.Errorf("no answer to the action %q", a.Action)
}
