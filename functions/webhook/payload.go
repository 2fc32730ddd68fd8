package webhook

import (
	"mime"
	"net/http"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

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
