// Package api is the table of the management API and of the webhook: a route that is
// not in it does not exist.
//
// A row says the method and the path, the function that serves it, who may use it, the
// types of the request and of the answer, the status of success and the problems that it
// can answer besides those of every route. From the table come the routes of the
// functions and the check of roles (package httpapi), the client, the role matrix of the
// tests, and the OpenAPI description.
package api

import (
	_ "embed"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// OpenAPI is the description of the table, which scripts/openapi writes.
//
//go:embed openapi.json
var OpenAPI []byte

// Need is what a caller needs to use a route.
type Need int

// The needs, each of which includes those before it, but for the last three.
const (
	Nothing   Need = iota
	SignedIn       // a session, or a service token
	Viewer         // a role in the project of the path; admins are owners everywhere
	Developer      //
	Owner          //
	Admin          // admins alone
	Token          // the token of the app's webhook, or of a pipeline that it trusts, instead of a session
	Holder         // an API key instead of a session
	Signature      // of a program that looks for leaked keys, instead of a session
)

func (n Need) String() string {
	return [...]string{"nothing", "a session", "viewer", "developer", "owner", "admin", "the webhook's token", "an API key", "the signature of a program that the installation trusts"}[n]
}

// Session tells whether n asks for a session, or a service token, at all.
func (n Need) Session() bool {
	return n != Nothing && n != Token && n != Holder && n != Signature
}

// Role is the role that n asks for, or "".
func (n Need) Role() app.Role {
	switch n {
	case Viewer:
		return app.Viewer
	case Developer:
		return app.Developer
	case Owner:
		return app.Owner
	case Nothing, SignedIn, Admin, Token, Holder, Signature:
	}
	return ""
}

// None is a request or an answer without a body.
type None struct{}

// Empty is a body that says nothing: {}.
type Empty struct{}

// IdempotencyKey is the header that names a call which its sender may send again.
const IdempotencyKey = "Idempotency-Key"

// Replayed is the header of a response that repeats the result of an earlier call with the same
// Idempotency-Key.
const Replayed = "Idempotent-Replayed"

// Prefer is the header that says how long a caller is willing to wait (RFC 7240).
const Prefer = "Prefer"

// IfMatch is the header that says which version a change is meant for, and ETag the one
// that names the version of an answer.
const (
	IfMatch = "If-Match"
	ETag    = "ETag"
)

// RevisionTag returns the entity tag of an app's history, which is its current revision: 0
// before the first.
func RevisionTag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Location is the header of a response that names the address of the work that the call began.
const Location = "Location"

// ChangeID is the header of an answer that names the change which was made.
const ChangeID = "Sluice-Change"

// Row is a route without the types of its handler.
type Row struct {
	Function string // that serves it
	Method   string
	Path     string // as net/http's patterns write it
	Need     Need
	People   bool         // a service token may not use it, whatever its role
	Recorded bool         // a GET that the audit log records
	Free     bool         // a call does not count against its caller's budget
	Request  reflect.Type // of the body, or of the query where the method is GET; None has neither
	Answer   reflect.Type
	Status   int // of success
	Summary  string
	Problems []problem.Code // besides those of [Row.Codes]

	Media    string   // type of the answer's body, where it is not JSON
	Others   []Answer // successful answers besides that one
	Optional bool     // the body may be left out
	Headers  []string // that the handler reads
	Tagged   bool     // the answer has an ETag, for the If-Match of changes
	Repeats  bool     // a call that is sent again with its Idempotency-Key gets the first call's result
	Begins   *Row     // reads the work that a call begins; the Location of the response. nil begins none
	Raw      string   // why the handler takes the request itself; "" where it does not
}

// Answer is one more successful answer of a row.
type Answer struct {
	Status int
	When   string // that is the answer, for people
	Type   reflect.Type
}

// Pattern is the row as net/http's patterns write it.
func (r *Row) Pattern() string { return r.Method + " " + r.Path }

// Budgeted reports whether a call counts against its caller's budget (promise A15).
func (r *Row) Budgeted() bool { return r.Need.Session() && !r.Free }

// CSRF reports whether a call by cookie needs the CSRF value: a change, or a call that the audit
// log records. Otherwise another site's page could make the call in the user's name.
func (r *Row) CSRF() bool { return r.Method != http.MethodGet || r.Recorded }

// HasBody tells whether the route reads a JSON body.
func (r *Row) HasBody() bool {
	return r.Method != http.MethodGet && r.Request != reflect.TypeFor[None]()
}

// placeholder is a parameter in a path.
var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// Parameters are the names of the path's parameters, in order.
func (r *Row) Parameters() []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, found[1])
	}
	return names
}

// URL is the path with its parameters filled in, in order.
func (r *Row) URL(escape func(string) string, values ...string) string {
	return placeholder.ReplaceAllStringFunc(r.Path, func(string) string {
		value := escape(values[0])
		values = values[1:]
		return value
	})
}

// Has tells whether the path has a parameter.
func (r *Row) Has(parameter string) bool { return strings.Contains(r.Path, "{"+parameter+"}") }

// Codes are all problems that the route can answer, sorted.
func (r *Row) Codes() []problem.Code {
	if r.Need == Holder { // the gate's own answers, and no others
		return slices.Sorted(slices.Values(r.Problems))
	}
	codes := append([]problem.Code{problem.Internal, problem.Unavailable, problem.SecretInURL}, r.Problems...)
	if r.Need.Session() {
		codes = append(codes, problem.Unauthenticated)
		if r.CSRF() {
			codes = append(codes, problem.CSRFRequired)
		}
	}
	if r.Budgeted() {
		codes = append(codes, problem.RateLimited)
	}
	if r.Need == Admin || r.Need.Role() != "" || r.People {
		codes = append(codes, problem.Forbidden)
	}
	if r.Need != Token && len(r.Parameters()) > 0 {
		codes = append(codes, problem.NotFound)
	}
	if r.HasBody() && r.Need != Token && r.Need != Signature {
		codes = append(codes, problem.MalformedJSON, problem.UnknownField, problem.WrongType, problem.BodyTooLarge, problem.UnsupportedMediaType)
	}
	if slices.Contains(r.Headers, IfMatch) {
		codes = append(codes, problem.PreconditionFailed)
	}
	if r.Raw == "" {
		codes = append(codes, problem.InvalidParameter, problem.UnknownParameter)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// Route is a row together with the types of its handler.
type Route[Req, Res any] struct{ *Row }

// Table gives all rows, in the order of the API's description.
func Table() []*Row { return slices.Clone(table) }

// Page sizes of lists.
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// Page is the part of a list that a client asks for. A token is checked by the store,
// which made it. Problem: invalid_page.
type Page struct {
	Size  int    `query:"page_size" kind:"page_size"` // items in the answer, at most
	Token string `query:"page_token"`                 // next_page_token of the page before; none asks for the first page
}

// KeysOf narrows a list of an environment's keys.
type KeysOf struct {
	Page
	Plan   string `query:"plan" kind:"plan_id"`      // only keys of this plan
	Status string `query:"status" kind:"key_status"` // only keys with this status
	App    string `query:"app" kind:"app"`           // only keys that open this app
	Search string `query:"search" kind:"search"`     // only keys with a word of the name, or the ID, that begins with this; case does not matter
	Sort   string `query:"sort" kind:"key_sort"`     // by id, or by expiry with status=expired, if left out
}

// KeysIn narrows a list of a project's keys.
type KeysIn struct {
	KeysOf
	Environment string `query:"environment" kind:"environment"` // only keys of this environment
}

// Window is the days of a usage report, both inclusive. nil was not asked for.
type Window struct {
	From *string `query:"from" kind:"day"` // first UTC day; 89 days before today if left out
	To   *string `query:"to" kind:"day"`   // last UTC day; today if left out
}

// Audit narrows a list of audit records.
type Audit struct {
	Page
	From     string `query:"from" kind:"instant"`      // RFC 3339 time or UTC day, inclusive
	To       string `query:"to" kind:"instant"`        // RFC 3339 time or UTC day, inclusive
	Actor    string `query:"actor"`                    // who made the change, exactly
	Action   string `query:"action"`                   // what was done, exactly
	Resource string `query:"resource" kind:"resource"` // a resource; all below it is found too
}

// Activity narrows what happened in an environment.
type Activity struct {
	Page
	Kind  string `query:"kind" kind:"activity_kind"` // what is looked for; all if left out
	From  string `query:"from" kind:"instant"`       // RFC 3339 time or UTC day, inclusive
	To    string `query:"to" kind:"instant"`         // RFC 3339 time or UTC day, inclusive
	Actor string `query:"actor"`                     // who did it, exactly
}
