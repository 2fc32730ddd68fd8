// Package api is the table of all routes of the management API and the webhook.
//
// The routes and access checks of the functions (package httpapi), the client, the OpenAPI document
// and the role matrix of the tests use this table.
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
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// OpenAPI is the OpenAPI document of the table. scripts/openapi generates it.
//
//go:embed openapi.json
var OpenAPI []byte

// Access is the access level that a route requires.
type Access int

// The access levels. Each level up to Admin includes the previous ones.
const (
	Nothing   Access = iota
	SignedIn         // a session, or a service token
	Viewer           // a role in the project of the path; admins are owners everywhere
	Developer        //
	Owner            //
	Admin            //
	Token            // no session: the token of the app's webhook or of a trusted pipeline
	Holder           // no session: an API key
	Signature        // no session: the signature of a secret-scanning program
)

func (n Access) String() string {
	return [...]string{"nothing", "a session", "viewer", "developer", "owner", "admin", "the webhook token or a token of a trusted pipeline", "an API key", "the signature of a trusted program"}[n]
}

// Session reports whether n requires a session or a service token.
func (n Access) Session() bool {
	return n != Nothing && n != Token && n != Holder && n != Signature
}

// Role returns the project role that n requires, or "".
func (n Access) Role() app.Role {
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

// None is a request or a response without a body.
type None struct{}

// Empty is the body {}.
type Empty struct{}

// IdempotencyKey is the request header that identifies a call for retries.
const IdempotencyKey = "Idempotency-Key"

// Replayed is the header of a response that repeats an earlier result for the same
// Idempotency-Key.
const Replayed = "Idempotent-Replayed"

// Prefer is the request header with the time that a caller is willing to wait (RFC 7240).
const Prefer = "Prefer"

// IfMatch is the request header with the version to change, and ETag the response header with
// the current version.
const (
	IfMatch = "If-Match"
	ETag    = "ETag"
)

// RevisionTag returns the entity tag of an app's history for its current revision, 0 before the
// first deployment.
func RevisionTag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Location is the response header with the URL of the work that the call started.
const Location = "Location"

// ChangeID is the response header that identifies the change.
const ChangeID = "Sluice-Change"

// Row describes a route.
type Row struct {
	Function string // the function that serves the route
	Method   string
	Path     string // in the form of a net/http pattern
	Need     Access
	People   bool           // service tokens cannot use the route, regardless of their role
	Recorded bool           // a GET that the audit log records
	Free     bool           // calls do not count against the caller's budget
	Request  reflect.Type   // of the body, or of the query for a GET; None without both
	Answer   reflect.Type   // of the response
	Status   int            // on success
	Summary  string         // at most 80 characters
	Details  string         // more sentences; "" if the summary suffices
	Problems []problem.Code // in addition to those that [Row.Codes] derives

	Media    string   // media type of the response; "" for JSON
	Others   []Answer // further successful responses
	Optional bool     // the body may be absent
	Headers  []string // headers that the handler reads
	Tagged   bool     // the response has an ETag, for the If-Match of changes
	Repeats  bool     // a repeated Idempotency-Key returns the first call's result
	Begins   *Row     // the route that reads the work started by a call, for Location; nil if none
	Raw      string   // why the handler processes the request itself; "" if it does not
}

// Answer is a further successful response of a row.
type Answer struct {
	Status int
	When   string // description, in lowercase without a period
	Type   reflect.Type
}

// Pattern returns the route in the form of a net/http pattern.
func (r *Row) Pattern() string { return r.Method + " " + r.Path }

// Budgeted reports whether a call counts against its caller's budget (promise A15).
func (r *Row) Budgeted() bool { return r.Need.Session() && !r.Free }

// CSRF reports whether a call with the session cookie needs the CSRF token. Changes and recorded
// reads do: otherwise another site's page could make them in the user's name.
func (r *Row) CSRF() bool { return r.Method != http.MethodGet || r.Recorded }

// HasBody reports whether the route reads a JSON body.
func (r *Row) HasBody() bool {
	return r.Method != http.MethodGet && r.Request != reflect.TypeFor[None]()
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// Parameters returns the names of the path's parameters, in order.
func (r *Row) Parameters() []string {
	var names []string
	for _, found := range placeholder.FindAllStringSubmatch(r.Path, -1) {
		names = append(names, found[1])
	}
	return names
}

// URL returns the path with the values of its parameters, in order.
func (r *Row) URL(escape func(string) string, values ...string) string {
	return placeholder.ReplaceAllStringFunc(r.Path, func(string) string {
		value := escape(values[0])
		values = values[1:]
		return value
	})
}

// Has reports whether the path has the parameter.
func (r *Row) Has(parameter string) bool { return strings.Contains(r.Path, "{"+parameter+"}") }

// Codes returns all problems that the route can return, sorted.
func (r *Row) Codes() []problem.Code {
	if r.Need == Holder { // the gate's own responses, and no others
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

// Route is a row with the types of its handler.
type Route[Req, Res any] struct{ *Row }

// Table returns all rows, in the order of the OpenAPI document.
func Table() []*Row { return slices.Clone(table) }

// Page sizes of lists.
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// Page selects a part of a list. The store creates and checks the tokens.
type Page struct {
	Size  int    `query:"page_size" kind:"page_size"` // maximum number of items in the response
	Token string `query:"page_token"`                 // next_page_token of the previous page; absent for the first page
}

// Allowed returns the values of an enumerated kind of query parameter, or nil if the kind is not
// enumerated.
func Allowed(kind string) []string {
	switch kind {
	case "audit_action":
		return texts(audit.Recorded())
	case "activity_kind":
		return texts(audit.Kinds())
	case "key_status":
		return wire.KeyStatuses()
	case "key_sort":
		return wire.KeySorts()
	case "per":
		return Pers()
	}
	return nil
}

func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// KeysOf filters a list of an environment's keys.
type KeysOf struct {
	Page
	Plan   string `query:"plan" kind:"plan_id"`      // plan of the keys
	Status string `query:"status" kind:"key_status"` // status of the keys
	App    string `query:"app" kind:"app"`           // app that the keys can access
	Tag    string `query:"tag" kind:"tag"`           // tag of the keys
	Unused string `query:"unused_for" kind:"unused"` // duration, 24h to 2208h, for which the keys have existed without requests; sorts by last use
	Search string `query:"search" kind:"search"`     // prefix of the key's ID or of a word in its name; case-insensitive
	Sort   string `query:"sort" kind:"key_sort"`     // sort order; with status=expired, id sorts by expiry
}

// KeysIn filters a list of a project's keys.
type KeysIn struct {
	KeysOf
	Environment string `query:"environment" kind:"environment"` // environment of the keys
}

// ReferenceSearch is a search in the API reference.
type ReferenceSearch struct {
	Query string `query:"q" kind:"search"` // words; a result contains all of them
}

// Window is the range of days in a usage report, both inclusive.
type Window struct {
	From *string `query:"from" kind:"day"` // first UTC day; default 89 days before today
	To   *string `query:"to" kind:"day"`   // last UTC day; default today
}

// UsageExport selects the rows of a usage export.
type UsageExport struct {
	Window
	Per string `query:"per" kind:"per"` // window for a row of each key; day for a row of each key and day with requests
}

// The rows of a usage export.
const (
	PerWindow = "window"
	PerDay    = "day"
)

// Pers returns all values of [UsageExport.Per].
func Pers() []string { return []string{PerWindow, PerDay} }

// Audit filters a list of audit records.
type Audit struct {
	Page
	From     string `query:"from" kind:"instant"`        // start: RFC 3339 time or UTC day, inclusive
	To       string `query:"to" kind:"instant"`          // end: RFC 3339 time or UTC day, inclusive
	Actor    string `query:"actor"`                      // exact name of the caller
	Action   string `query:"action" kind:"audit_action"` // exact action
	Resource string `query:"resource" kind:"resource"`   // path of the resource; matches it and all resources below it
}

// Activity filters a list of an environment's activity.
type Activity struct {
	Page
	Kind  string `query:"kind" kind:"activity_kind"` // kind of activity; default all
	From  string `query:"from" kind:"instant"`       // start: RFC 3339 time or UTC day, inclusive
	To    string `query:"to" kind:"instant"`         // end: RFC 3339 time or UTC day, inclusive
	Actor string `query:"actor"`                     // exact name of the caller
}
