package hook

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
)

// Event is the event of a git provider, e.g. "push", or "" for a CI pipeline's call.
type Event string

// The events with an effect. All others are ignored.
const (
	NoEvent Event = ""
	Ping    Event = "ping"
	Push    Event = "push"
)

// The headers that name the event.
const (
	EventHeader       = "X-GitHub-Event"
	gitLabEventHeader = "X-Gitlab-Event"
)

// gitLabPush is GitLab's name of a push to a branch. A push of a tag has another name.
const gitLabPush = "Push Hook"

// EventOf returns a call's event. Gitea sends GitHub's header in addition to its own.
func EventOf(header http.Header) Event {
	for _, name := range []string{EventHeader, "X-Gitea-Event"} {
		if values := header.Values(name); len(values) > 0 {
			return Event(values[0])
		}
	}
	if values := header.Values(gitLabEventHeader); len(values) > 0 {
		if values[0] == gitLabPush {
			return Push
		}
		return Event(gitLabEventHeader + ": " + values[0])
	}
	return NoEvent
}

// DeliveryOf returns the sender's ID for the call, or "".
func DeliveryOf(header http.Header) string {
	for _, name := range []string{"X-GitHub-Delivery", "X-Gitea-Delivery", "Idempotency-Key"} {
		if id := header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// Call is the content of an authenticated call.
type Call struct {
	Event  Event
	Image  string // full image reference, or ""
	Commit string // lowercase hash, full or abbreviated, or ""

	Ref     string // ref of a push, e.g. "refs/heads/main"
	Deleted bool
}

type push struct {
	Ref     *string `json:"ref"`
	After   *string `json:"after"`
	Deleted bool    `json:"deleted"`
}

// ParseEvent parses a provider's event. Only push events have content. It returns a
// malformed_json, wrong_type, missing_field or invalid_commit problem.
func ParseEvent(event Event, body []byte) (Call, error) {
	if !json.Valid(body) {
		return Call{}, problem.FromCode(problem.MalformedJSON)
	}
	if event != Push {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			return Call{}, problem.New(problem.WrongType, "The request body must be a JSON object.").WithCause(err)
		}
		return Call{Event: event}, nil
	}
	var p push
	if err := json.Unmarshal(body, &p); err != nil {
		return Call{}, problem.New(problem.WrongType, "The push event must be an object with the strings ref and after.").WithCause(err)
	}
	if p.Ref == nil || *p.Ref == "" || p.After == nil || *p.After == "" {
		return Call{}, problem.New(problem.MissingField, "The push event lacks ref or after. Send both.")
	}
	call := Call{Event: Push, Ref: *p.Ref, Deleted: p.Deleted || zeroCommit(*p.After)}
	if call.Deleted {
		return call, nil
	}
	var err error
	call.Commit, err = ParseCommit(*p.After)
	return call, err
}

// Git abbreviates hashes to at least 4 digits. SHA-256 repositories have hashes of 64 digits.
const (
	minCommit = 4
	maxCommit = 64
)

// ParseCommit returns a full or abbreviated commit hash in lower case; "" is valid. It returns an
// invalid_commit problem for other input.
func ParseCommit(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	s = strings.ToLower(s)
	if len(s) < minCommit || len(s) > maxCommit || strings.Trim(s, "0123456789abcdef") != "" {
		return "", problem.FromCode(problem.InvalidCommit)
	}
	return s, nil
}

// zeroCommit reports whether s is git's null hash, which marks a deleted branch.
func zeroCommit(s string) bool { return s != "" && strings.Trim(s, "0") == "" }
