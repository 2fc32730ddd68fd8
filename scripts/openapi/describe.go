package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	openapi "github.com/swaggest/openapi-go/openapi31"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

const about = `Sluice puts a gate in front of apps: usage plans, API keys and their usage, apps and their deployments.

Bodies are JSON in UTF-8 with times in RFC 3339, UTC; a field that a request's schema does not have is refused. An error is an object of a stable ` +
	"`code`" + ` for programs and a ` + "`message`" + ` for people; every operation lists the problems that it can answer. Where fields of the request are wrong, ` + "`errors`" + ` tells of each of them at once. Every answer has an ` + "`X-Request-Id`" + `, which the logs have too.

Webhooks are what an installation sends, where it has a sink for events: CloudEvents 1.0 in HTTP's binary mode, whose type is the webhook's name. They come at least once, and are tried for a day; those of one subject, a key or an app, come in the order of what they tell of. One that comes again has the same id. Ends of deployments are CDEvents 0.4.1 beside them.

Lists come in pages: as long as ` + "`next_page_token`" + ` is not empty, there is more to ask for with ` + "`page_token`" + `.`

// The security schemes.
const (
	bearer    = "bearer"
	cookie    = "cookie"
	csrf      = "csrf"
	hookToken = "webhookToken"
	signature = "webhookSignature"
	apiKey    = "apiKey"
	program   = "programSignature"
)

// document is the description while it is put together.
type document struct {
	*source
	*schemas
	paths     map[string]openapi.PathItem
	responses map[string]openapi.ResponseOrReference // of the problems
	told      map[problem.Code]bool
}

// describe gives the description as JSON. It reads the sources below the working
// directory.
func describe() ([]byte, error) {
	source, err := readSource()
	if err != nil {
		return nil, err
	}
	table := api.Table()
	if len(source.routes) != len(table) {
		return nil, fmt.Errorf("%d routes in the table, but %d in its source", len(table), len(source.routes))
	}
	d := &document{source: source, schemas: newSchemas(source), paths: map[string]openapi.PathItem{}, responses: map[string]openapi.ResponseOrReference{}, told: map[problem.Code]bool{}}
	for i, row := range table {
		if err := d.add(row, source.routes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", row.Pattern(), err)
		}
	}
	for _, t := range []reflect.Type{reflect.TypeFor[wire.Error](), reflect.TypeFor[wire.Problem]()} {
		if _, err := d.of(t); err != nil {
			return nil, err
		}
	}
	spec := d.whole()
	if err := d.addEvents(&spec); err != nil {
		return nil, err
	}
	for name, schema := range d.named { // those of events came last
		spec.ComponentsEns().WithSchemasItem(name, schema)
	}
	b, err := json.MarshalIndent(spec, "", " ")
	return append(b, '\n'), err
}

func (d *document) whole() openapi.Spec {
	spec := openapi.Spec{Openapi: "3.1.0"}
	spec.Info = *(&openapi.Info{Title: "Sluice", Version: "1"}).WithDescription(about)
	spec.Servers = []openapi.Server{*(&openapi.Server{URL: "https://{host}"}).
		WithVariables(map[string]openapi.ServerVariable{"host": *(&openapi.ServerVariable{Default: "sluice.example.com"}).WithDescription("Where Sluice is installed.")})}
	for _, g := range d.groups {
		spec.Tags = append(spec.Tags, *(&openapi.Tag{Name: g.name}).WithDescription(g.about))
	}
	spec.WithMapOfAnythingItem("x-problems", d.allProblems())
	spec.PathsEns().WithMapOfPathItemValues(d.paths)
	spec.ComponentsEns().WithResponses(d.responses)
	for name, s := range securitySchemes() {
		spec.ComponentsEns().WithSecuritySchemesItem(name, openapi.SecuritySchemeOrReference{SecurityScheme: &s})
	}
	for name, h := range headers() {
		spec.ComponentsEns().WithHeadersItem(name, openapi.HeaderOrReference{Header: &h})
	}
	return spec
}

func securitySchemes() map[string]openapi.SecurityScheme {
	in := func(where openapi.SecuritySchemeAPIKeyIn, name, about string) openapi.SecurityScheme {
		return *(&openapi.SecurityScheme{}).WithDescription(about).WithAPIKey(openapi.SecuritySchemeAPIKey{Name: name, In: where})
	}
	return map[string]openapi.SecurityScheme{
		bearer:    *(&openapi.SecurityScheme{}).WithDescription("The token of a session, or a service token.").WithHTTPBearer(openapi.SecuritySchemeHTTPBearer{Scheme: "bearer"}),
		cookie:    in(openapi.SecuritySchemeAPIKeyInCookie, identity.CookieName, "The session of a browser. Changes and recorded reads need the CSRF value too."),
		csrf:      in(openapi.SecuritySchemeAPIKeyInHeader, identity.CSRFHeader, "csrf_token of the session."),
		hookToken: in(openapi.SecuritySchemeAPIKeyInHeader, "X-Service-Token", "The token of the app's webhook."),
		apiKey:    in(openapi.SecuritySchemeAPIKeyInHeader, "X-API-Key", "An API key, whole. It opens gated apps, and of the API its own description alone."),
		program: in(openapi.SecuritySchemeAPIKeyInHeader, "Github-Public-Key-Signature",
			"The base64 of the ASN.1 ECDSA signature on P-256 of the body's SHA-256, with the key of the program that Github-Public-Key-Identifier names."),
		signature: in(openapi.SecuritySchemeAPIKeyInHeader, "X-Hub-Signature-256",
			"sha256= and the lower-case hexadecimal HMAC-SHA256 of the body under the webhook's token. Sent with a token, both must hold."),
	}
}

func headers() map[string]openapi.Header {
	of := func(kind, about string) openapi.Header {
		return *(&openapi.Header{}).WithDescription(about).WithSchema(map[string]any{"type": kind})
	}
	return map[string]openapi.Header{
		"X-Request-Id": of("string", "Names the request in the logs."),
		api.ETag:       of("string", "Names what was asked for, as it is; for If-Match. What is only observed, such as a gate's state or the day a key was last seen, does not count."),
		api.Location:   of("string", "The address that reads the work which the call began."),
		"Retry-After":  of("integer", "Seconds until it is worth trying again."),

		"RateLimit-Policy": of("string", "The caller's budget of calls, as draft-ietf-httpapi-ratelimit-headers-11 has it."),
		"RateLimit":        of("string", "The rest of that budget."),

		"WWW-Authenticate": of("string", "What to prove oneself with; the same for all of one code."),
	}
}

// add describes a route.
func (d *document) add(row *api.Row, name string) error {
	op := (&openapi.Operation{}).WithID(strings.ToLower(name[:1]) + name[1:]).WithTags(row.Function).
		WithSummary(row.Summary).WithDescription("Needs " + needs(row.Need) + "." + people(row)).WithSecurity(security(row)...)
	var err error
	if op.Parameters, err = d.parameters(row); err != nil {
		return err
	}
	if row.HasBody() {
		schema, err := d.of(row.Request)
		if err != nil {
			return err
		}
		body := (&openapi.RequestBody{}).WithContentItem("application/json", content(schema)).WithRequired(!row.Optional)
		op.RequestBody = &openapi.RequestBodyOrReference{RequestBody: body}
	}
	answers, err := d.answers(row)
	if err != nil {
		return err
	}
	op.Responses = (&openapi.Responses{}).WithMapOfResponseOrReferenceValues(answers)
	item := d.paths[row.Path]
	switch row.Method {
	case http.MethodGet:
		item.Get = op
	case http.MethodPut:
		item.Put = op
	case http.MethodPost:
		item.Post = op
	case http.MethodPatch:
		item.Patch = op
	case http.MethodDelete:
		item.Delete = op
	}
	d.paths[row.Path] = item
	return nil
}

func needs(n api.Need) string {
	if role := n.Role(); role != "" {
		return "the role " + string(role) + " in the project"
	}
	if n == api.Admin {
		return "an admin's session"
	}
	return n.String()
}

// people says that a route is not for service tokens.
func people(row *api.Row) string {
	if row.People {
		return " No service token may use it, whatever its role."
	}
	return ""
}

// security is what a caller proves who they are with: one of the list. A cookie alone is
// not enough for a change.
func security(row *api.Row) []map[string][]string {
	with := func(schemes ...string) map[string][]string {
		all := map[string][]string{}
		for _, s := range schemes {
			all[s] = []string{}
		}
		return all
	}
	switch {
	case row.Need == api.Nothing:
		return []map[string][]string{with()}
	case row.Need == api.Holder:
		return []map[string][]string{with(apiKey)}
	case row.Need == api.Signature:
		return []map[string][]string{with(program)}
	case row.Need == api.Token && row.Method == http.MethodPost:
		return []map[string][]string{with(hookToken), with(signature), with(hookToken, signature)}
	case row.Need == api.Token:
		return []map[string][]string{with(hookToken)}
	case !row.CSRF():
		return []map[string][]string{with(bearer), with(cookie)}
	}
	return []map[string][]string{with(bearer), with(cookie, csrf)}
}

// parameters are those of the path, of the query and the headers that the handler reads.
func (d *document) parameters(row *api.Row) ([]openapi.ParameterOrReference, error) {
	var all []openapi.ParameterOrReference
	add := func(in openapi.ParameterIn, name, about string, schema map[string]any) {
		p := (&openapi.Parameter{Name: name, In: in}).WithSchema(schema)
		if in == openapi.ParameterInPath {
			p.WithRequired(true)
		}
		if about != "" {
			p.WithDescription(about)
		}
		all = append(all, openapi.ParameterOrReference{Parameter: p})
	}
	for _, name := range row.Parameters() {
		schema, err := d.value(pathKinds[name])
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		add(openapi.ParameterInPath, name, "", schema)
	}
	if row.Method == http.MethodGet {
		fields, err := d.query(row.Request)
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			add(openapi.ParameterInQuery, f.name, f.about, f.schema)
		}
	}
	for _, name := range row.Headers {
		if h, ok := requestHeaders[name]; ok { // the others are security schemes
			add(openapi.ParameterInHeader, name, h, map[string]any{"type": "string"})
		}
	}
	return all, nil
}

// requestHeaders are what the headers of requests mean.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var requestHeaders = map[string]string{
	api.IdempotencyKey:  "Names the call for 24 hours: sent again it changes nothing more, and is answered as the first time, or with already_issued where that answer held a full key.",
	"Prefer":            "wait=SECONDS, at most 300, waits that long for the outcome.",
	"X-GitHub-Event":    "The event, of a git provider's call: push builds, ping answers pong, others are ignored.",
	"X-Gitea-Event":     "The event, of Gitea's and Forgejo's calls.",
	"X-Gitlab-Event":    "The event, of GitLab's call: Push Hook builds, others are ignored.",
	"X-Gitlab-Token":    "The token of the app's webhook, of GitLab's call.",
	"X-GitHub-Delivery": "A git provider's Idempotency-Key.",
	"X-Gitea-Delivery":  "A git provider's Idempotency-Key.",
	api.IfMatch:         "The ETag of what the sender has seen, or several, or *: of anything else nothing is changed. For deployments and builds it is the ETag of the app, or of its deployments: the current revision's number in quotes.",
	"If-None-Match":     "The ETag of what the sender has; unchanged, it is not sent again.",
}

// answers are the successful ones and, by their status, the problems.
func (d *document) answers(row *api.Row) (map[string]openapi.ResponseOrReference, error) {
	answers := map[string]openapi.ResponseOrReference{}
	successful := append([]api.Answer{{Status: row.Status, When: "Done", Type: row.Answer}}, row.Others...)
	for i, answer := range successful {
		status := strconv.Itoa(answer.Status)
		if _, known := answers[status]; known {
			continue
		}
		var when []string
		var schemas []map[string]any
		for _, same := range successful[i:] {
			if same.Status != answer.Status {
				continue
			}
			when = append(when, same.When)
			if same.Type != reflect.TypeFor[api.None]() {
				schema, err := d.of(same.Type)
				if err != nil {
					return nil, err
				}
				schemas = append(schemas, schema)
			}
		}
		made := response(cmp.Or(row.Media, "application/json"), strings.Join(when, "; or: ")+".", schemas...)
		withHeaders(made.Response, row)
		answers[status] = made
	}
	for status, codes := range d.byStatus(row) {
		answers[strconv.Itoa(status)] = d.problems(status, codes)
	}
	return answers, nil
}

// problems is the answer of a status: that of one code stands in the document once.
func (d *document) problems(status int, codes []problem.Code) openapi.ResponseOrReference {
	names := all(codes)
	made := response("application/json", http.StatusText(status)+".", map[string]any{"allOf": []any{
		map[string]any{"$ref": prefix + "Error"},
		map[string]any{"type": "object", "properties": map[string]any{"code": map[string]any{"type": "string", "enum": names}}},
	}})
	made.Response.WithContentItem("application/problem+json", content(map[string]any{"$ref": prefix + "Problem"}))
	if status == http.StatusUnauthorized {
		made.Response.WithHeadersItem("WWW-Authenticate", header("WWW-Authenticate"))
	}
	if status == http.StatusTooManyRequests {
		withBudget(made.Response)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		made.Response.WithHeadersItem("Retry-After", header("Retry-After"))
	}
	if len(codes) > 1 {
		return made
	}
	d.responses[string(codes[0])] = made
	return openapi.ResponseOrReference{Reference: &openapi.Reference{Ref: "#/components/responses/" + string(codes[0])}}
}

// withHeaders adds the header fields of a row's successful responses.
func withHeaders(r *openapi.Response, row *api.Row) {
	if row.Tagged {
		r.WithHeadersItem(api.ETag, header(api.ETag))
	}
	if row.Begins != nil {
		r.WithHeadersItem(api.Location, header(api.Location))
	}
	if row.Budgeted() {
		withBudget(r)
	}
}

// withBudget adds the header fields of a caller's budget.
func withBudget(r *openapi.Response) {
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		r.WithHeadersItem(name, header(name))
	}
}

func response(media, about string, schemas ...map[string]any) openapi.ResponseOrReference {
	r := (&openapi.Response{Description: about}).WithHeadersItem("X-Request-Id", header("X-Request-Id"))
	switch len(schemas) {
	case 0:
	case 1:
		r.WithContentItem(media, content(schemas[0]))
	default:
		r.WithContentItem(media, content(map[string]any{"oneOf": schemas}))
	}
	return openapi.ResponseOrReference{Response: r}
}

func header(name string) openapi.HeaderOrReference {
	return openapi.HeaderOrReference{Reference: &openapi.Reference{Ref: "#/components/headers/" + name}}
}

func content(schema map[string]any) openapi.MediaType { return openapi.MediaType{Schema: schema} }

// byStatus are the problems of a route by their HTTP status.
func (d *document) byStatus(row *api.Row) map[int][]problem.Code {
	all := map[int][]problem.Code{}
	for _, code := range row.Codes() {
		status := problem.Of(code).Status()
		d.told[code] = true
		all[status] = append(all[status], code)
	}
	return all
}

// told is a problem as the document lists it.
type told struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"` // as it mostly is
}

// allProblems are those that any route can answer, in the order of the table.
func (d *document) allProblems() (list []told) {
	for _, row := range problem.Table() {
		if d.told[row.Code] {
			list = append(list, told{row.Status, string(row.Code), row.Message})
		}
	}
	return list
}
