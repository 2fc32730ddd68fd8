package hook

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
)

// Event is what a git provider says a call is about, e.g. "push"; "" is a call
// from a CI pipeline.
type Event string

// The events that mean something here; every other one is ignored.
const (
	NoEvent Event = ""
	Ping    Event = "ping"
	Push    Event = "push"
)

// The headers in which GitHub and GitLab name the event.
const (
	EventHeader       = "X-GitHub-Event"
	gitLabEventHeader = "X-Gitlab-Event"
)

// gitLabPush is GitLab's name of a push to a branch. A push of a tag has another name.
const gitLabPush = "Push Hook"

// EventOf reads a call's event. Gitea sends GitHub's header next to its own.
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
		return Event(gitLabEventHeader + ": " + values[0]) // differs from all events above
	}
	return NoEvent
}

// DeliveryOf reads the id by which the sender would know the call again; "" when
// it has none.
func DeliveryOf(header http.Header) string {
	for _, name := range []string{"X-GitHub-Delivery", "X-Gitea-Delivery", "Idempotency-Key"} {
		if id := header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// Call is what a proven call says.
type Call struct {
	Event  Event
	Image  string // full image reference; "" when none is given
	Commit string // lower-case hash, whole or abbreviated; "" when none is given

	Ref     string // of a push: the whole ref, e.g. "refs/heads/main"
	Deleted bool   // of a push: the ref was deleted
}

// push holds the fields of a push event that GitHub, Gitea and GitLab have in common.
type push struct {
	Ref     *string `json:"ref"`
	After   *string `json:"after"`
	Deleted bool    `json:"deleted"`
}

// ParseEvent reads the body of a provider's event: of a push its fields, of every
// other nothing but that it is an object. Problems: malformed_json, wrong_type,
// missing_field, invalid_commit.
func ParseEvent(event Event, body []byte) (Call, error) {
	if !json.Valid(body) {
		return Call{}, problem.Of(problem.MalformedJSON)
	}
	if event != Push {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			return Call{}, problem.New(problem.WrongType, "The request body must be a JSON object.").Because(err)
		}
		return Call{Event: event}, nil
	}
	var p push
	if err := json.Unmarshal(body, &p); err != nil {
		return Call{}, problem.New(problem.WrongType, "A push event is an object with the strings ref and after.").Because(err)
	}
	if p.Ref == nil || *p.Ref == "" || p.After == nil || *p.After == "" {
		return Call{}, problem.New(problem.MissingField, "A push event has ref and after.")
	}
	call := Call{Event: Push, Ref: *p.Ref, Deleted: p.Deleted || zeroCommit(*p.After)}
	if call.Deleted {
		return call, nil
	}
	var err error
	call.Commit, err = ParseCommit(*p.After)
	return call, err
}

// Lengths of a commit, in hexadecimal digits: git abbreviates to no less than 4,
// and the hashes of SHA-256 repositories have 64.
const (
	minCommit = 4
	maxCommit = 64
)

// ParseCommit takes a whole or abbreviated commit hash and gives it in lower case,
// e.g. "9fceb02d0ae598e95dc970b74767f19372d61af8"; "" stays "". Problem:
// invalid_commit.
func ParseCommit(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	s = strings.ToLower(s)
	if len(s) < minCommit || len(s) > maxCommit || strings.Trim(s, "0123456789abcdef") != "" {
		return "", problem.Of(problem.InvalidCommit)
	}
	return s, nil
}

// zeroCommit tells whether s is the hash that git uses for "none", as after of a
// push that deletes.
func zeroCommit(s string) bool { return s != "" && strings.Trim(s, "0") == "" }
