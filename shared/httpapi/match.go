package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// TagOf is the entity tag of what v says, e.g. `"9f86d081884c7d659a2feaa0"`: another v has
// another one. What changes by itself, such as when a key was last seen, is not to be in v,
// or nobody who has read it could change it in time.
func TagOf(v any) string {
	content, err := json.Marshal(v)
	if err != nil { // what is stored always encodes
		panic(err)
	}
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Match is what a request's If-Match asks for (RFC 9110, section 13.1.1): that what it
// changes is still what its sender has seen. The zero Match asks for nothing.
//
// It is checked where the change is made, in the same transaction: a look before would
// leave a moment for others.
type Match struct {
	asked bool
	tags  []string // none where anything will do that is there
}

// Check compares with a resource as it is stored. Problem: precondition_failed.
func (m Match) Check(stored any) error { return m.CheckTags(TagOf(stored)) }

// CheckTags compares with the tags that a resource has. It returns a precondition_failed
// problem if If-Match names none of them.
func (m Match) CheckTags(tags ...string) error {
	if !m.asked || len(m.tags) == 0 {
		return nil
	}
	for _, tag := range tags { // a weak one begins with W/ and is never equal
		if slices.Contains(m.tags, tag) {
			return nil
		}
	}
	return problem.Of(problem.PreconditionFailed)
}

// CheckApp compares the request's app with the one that is stored. If-Match may name the app or
// its history. It returns a precondition_failed problem if it names neither, and a not_found
// problem if the stored app is a later one of that name.
func (s Scope) CheckApp(stored app.App) error {
	if !stored.CreatedAt.Equal(s.App.CreatedAt) {
		return noSuch("app")
	}
	return s.Match.CheckTags(api.RevisionTag(stored.Revision), TagOf(stored.Asked()))
}

// Asked tells whether there was an If-Match.
func (m Match) Asked() bool { return m.asked }

// entityTag is one of a list, with what parts it from the next one; a list may have empty
// places.
var entityTag = regexp.MustCompile(`^[ \t,]*((?:W/)?"[!#-~\x{80}-\x{ff}]*")[ \t]*(,|$)`)

// matchOf reads If-Match. Problem: invalid_parameter.
func matchOf(h http.Header) (Match, error) {
	lines := h.Values(api.IfMatch)
	if len(lines) == 0 {
		return Match{}, nil
	}
	rest := strings.Join(lines, ",")
	m := Match{asked: true}
	if strings.Trim(rest, " \t") == "*" {
		return m, nil
	}
	for strings.Trim(rest, " \t,") != "" {
		found := entityTag.FindStringSubmatch(rest)
		if found == nil {
			return Match{}, badMatch()
		}
		m.tags = append(m.tags, found[1])
		rest = rest[len(found[0]):]
	}
	if len(m.tags) == 0 {
		return Match{}, badMatch()
	}
	return m, nil
}

func badMatch() error {
	return problem.New(problem.InvalidParameter, "If-Match is * or a list of entity tags, each in quotes as ETag gave it.")
}

// TagHistory sets the ETag of an app's history, of which the revision is the current one.
func (s Scope) TagHistory(revision int64) { s.head.Set(api.ETag, api.RevisionTag(revision)) }

// Tag says by ETag what the answer is of, as it is stored. That of a problem has none.
func (s Scope) Tag(stored any) { s.head.Set(api.ETag, TagOf(stored)) }
