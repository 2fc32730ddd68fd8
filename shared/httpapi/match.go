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

// ETag returns the entity tag of v, e.g. `"9f86d081884c7d659a2feaa0"`. v must not contain values
// that change without a request, such as the day of a key's last use: If-Match would then often
// fail.
func ETag(v any) string {
	content, err := json.Marshal(v)
	if err != nil { // stored values can always be encoded
		panic(err)
	}
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Match is the If-Match precondition of a request (RFC 9110, section 13.1.1). The zero Match has no
// precondition.
//
// It must be checked in the transaction that makes the change.
type Match struct {
	asked bool
	tags  []string // empty for *
}

// Check returns a precondition_failed problem if If-Match does not include the tag of the stored
// resource.
func (m Match) Check(stored any) error { return m.CheckTags(ETag(stored)) }

// CheckTags returns a precondition_failed problem if If-Match includes none of the tags.
func (m Match) CheckTags(tags ...string) error {
	if !m.asked || len(m.tags) == 0 {
		return nil
	}
	for _, tag := range tags { // weak tags start with W/ and never match
		if slices.Contains(m.tags, tag) {
			return nil
		}
	}
	return problem.FromCode(problem.PreconditionFailed)
}

// CheckApp compares the request's app with the stored one. It returns a not_found problem if the
// stored app is a later app with the same name. It returns a precondition_failed problem if
// If-Match includes neither the app's tag nor its history's tag.
func (s Scope) CheckApp(stored app.App) error {
	if !stored.CreatedAt.Equal(s.App.CreatedAt) {
		return noSuch("app")
	}
	return s.Match.CheckTags(api.RevisionTag(stored.Revision), ETag(stored.Asked()))
}

// Present reports whether the request has an If-Match header.
func (m Match) Present() bool { return m.asked }

var entityTag = regexp.MustCompile(`^[ \t,]*((?:W/)?"[!#-~\x{80}-\x{ff}]*")[ \t]*(,|$)`)

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
	return problem.New(problem.InvalidParameter, "If-Match must be * or a list of entity tags in quotes, as in the ETag header.")
}

// TagHistory sets the ETag of an app's history to its current revision.
func (s Scope) TagHistory(revision int64) { s.head.Set(api.ETag, api.RevisionTag(revision)) }

// SetETag sets the ETag of the stored resource. The response for a problem has no ETag.
func (s Scope) SetETag(stored any) { s.head.Set(api.ETag, ETag(stored)) }
