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

const about = `Sluice is an API-key gate for apps. This API manages usage plans, API keys and their usage, apps and their deployments.

Request and response bodies are JSON in UTF-8. Times are RFC 3339 in UTC. A request with a field that is not in its schema is rejected. An error is an object with a stable ` +
	"`code`" + ` for programs and a ` + "`message`" + ` for people. Each operation lists the problems that it can return. If fields of the request are invalid, ` + "`errors`" + ` lists all of them. Each response has an ` + "`X-Request-Id`" + `, which also appears in the logs.

The webhooks in this document are the events that an installation with an event sink sends: CloudEvents 1.0 in HTTP binary mode. The type of an event is the name of its webhook. Events are delivered at least once and retried for one day. Events about the same subject, a key or an app, are sent in order. A redelivered event has the same id. The end of a deployment is also sent as a CDEvent (version 0.4.1).

Lists are paged. While ` + "`next_page_token`" + ` is not empty, send it as ` + "`page_token`" + ` to get the next page.`

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

type document struct {
	*source
	*schemas
	paths     map[string]openapi.PathItem
	responses map[string]openapi.ResponseOrReference // shared responses of problems
	used      map[problem.Code]bool                  // problems of any route
}

// describe returns the OpenAPI document as JSON. It reads the Go sources below the working
// directory.
func describe() ([]byte, error) {
	source, err := readSource()
	if err != nil {
		return nil, err
	}
	table := api.Table()
	if len(source.routes) != len(table) {
		return nil, fmt.Errorf("routes in the table: %d, in its source: %d", len(table), len(source.routes))
	}
	d := &document{source: source, schemas: newSchemas(source), paths: map[string]openapi.PathItem{}, responses: map[string]openapi.ResponseOrReference{}, used: map[problem.Code]bool{}}
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
	for name, schema := range d.named { // the schemas of events were added last
		spec.ComponentsEns().WithSchemasItem(name, schema)
	}
	b, err := json.MarshalIndent(spec, "", " ")
	return append(b, '\n'), err
}

func (d *document) whole() openapi.Spec {
	spec := openapi.Spec{Openapi: "3.1.0"}
	spec.Info = *(&openapi.Info{Title: "Sluice", Version: "1"}).WithDescription(about)
	spec.Servers = []openapi.Server{*(&openapi.Server{URL: "https://{host}"}).
		WithVariables(map[string]openapi.ServerVariable{"host": *(&openapi.ServerVariable{Default: "sluice.example.com"}).WithDescription("Host name of the Sluice installation.")})}
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
		bearer:    *(&openapi.SecurityScheme{}).WithDescription("Session token or service token.").WithHTTPBearer(openapi.SecuritySchemeHTTPBearer{Scheme: "bearer"}),
		cookie:    in(openapi.SecuritySchemeAPIKeyInCookie, identity.CookieName, "Browser session. All changes, and the reads that the audit log records, also need the CSRF token."),
		csrf:      in(openapi.SecuritySchemeAPIKeyInHeader, identity.CSRFHeader, "The csrf_token of the session."),
		hookToken: in(openapi.SecuritySchemeAPIKeyInHeader, "X-Service-Token", "Token of the app's webhook."),
		apiKey:    in(openapi.SecuritySchemeAPIKeyInHeader, "X-API-Key", "Full API key. In this API, it is valid only for GET /key."),
		program: in(openapi.SecuritySchemeAPIKeyInHeader, "Github-Public-Key-Signature",
			"Signature of the body: base64 of an ASN.1 ECDSA signature (P-256, SHA-256) with the key in Github-Public-Key-Identifier."),
		signature: in(openapi.SecuritySchemeAPIKeyInHeader, "X-Hub-Signature-256",
			"sha256= followed by the lowercase hexadecimal HMAC-SHA256 of the body with the webhook token as key. If a token is also sent, both must be valid."),
	}
}

func headers() map[string]openapi.Header {
	of := func(kind, about string) openapi.Header {
		return *(&openapi.Header{}).WithDescription(about).WithSchema(map[string]any{"type": kind})
	}
	return map[string]openapi.Header{
		"X-Request-Id": of("string", "ID of the request in the logs."),
		api.ETag:       of("string", "Version of the resource, for If-Match. Observed values, such as the state of a gate or last_seen of a key, do not change it."),
		api.Location:   of("string", "URL of the deployment or build that the call started."),
		"Retry-After":  of("integer", "Number of seconds to wait before a retry."),

		"RateLimit-Policy": of("string", "Call budget of the caller, as defined in draft-ietf-httpapi-ratelimit-headers-11."),
		"RateLimit":        of("string", "Remaining call budget of the caller."),

		"WWW-Authenticate": of("string", "Required authentication. The value depends only on the problem code."),
	}
}

func (d *document) add(row *api.Row, name string) error {
	op := (&openapi.Operation{}).WithID(strings.ToLower(name[:1]) + name[1:]).WithTags(row.Function).
		WithSummary(row.Summary).WithDescription(description(row)).WithSecurity(security(row)...)
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
	responses, err := d.allResponses(row)
	if err != nil {
		return err
	}
	op.Responses = (&openapi.Responses{}).WithMapOfResponseOrReferenceValues(responses)
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

func description(row *api.Row) string {
	need := needs(row.Need)
	if row.Need == api.SignedIn && !row.People {
		need += " or a service token"
	}
	about := strings.TrimSpace(row.Details + " Requires " + need + ".")
	if row.People {
		about += " Service tokens cannot use it."
	}
	return about
}

func needs(n api.Access) string {
	if role := n.Role(); role != "" {
		return "the " + string(role) + " role in the project"
	}
	if n == api.Nothing {
		return "no authentication"
	}
	if n == api.Admin {
		return "an admin's session"
	}
	return n.String()
}

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
		if h, ok := requestHeaders[name]; ok { // other headers are security schemes
			add(openapi.ParameterInHeader, name, h, map[string]any{"type": "string"})
		}
	}
	return all, nil
}

// requestHeaders contains the descriptions of request headers.
//
//nolint:gochecknoglobals,gosec // a constant table without credentials
var requestHeaders = map[string]string{
	api.IdempotencyKey:  "Identifies the call for 24 hours. A repeated call changes nothing and returns the first response, or already_issued if that response contained a full key.",
	"Prefer":            "wait=SECONDS waits up to that time for the result. The maximum is 300 for webhook calls and 30 for changes to keys and plans.",
	"X-GitHub-Event":    "Event in a git provider's call: push starts a build, ping returns pong, others are ignored.",
	"X-Gitea-Event":     "Event in a call from Gitea or Forgejo, like X-GitHub-Event.",
	"X-Gitlab-Event":    "Event in a call from GitLab: Push Hook starts a build, others are ignored.",
	"X-Gitlab-Token":    "Token of the app's webhook in a call from GitLab.",
	"X-GitHub-Delivery": "ID of a call from a git provider, used as its Idempotency-Key.",
	"X-Gitea-Delivery":  "ID of a call from a git provider, used as its Idempotency-Key.",
	api.IfMatch:         "One or more ETags, or *. Nothing is changed if the resource matches none of them. For deployments and builds, use the ETag of the app or of its deployments; the latter is the number of the current revision in quotes.",
	"If-None-Match":     "ETag of the client's copy. If it is current, the response has status 304 and no body.",
}

func (d *document) allResponses(row *api.Row) (map[string]openapi.ResponseOrReference, error) {
	responses := map[string]openapi.ResponseOrReference{}
	successful := append([]api.Answer{{Status: row.Status, When: "success", Type: row.Answer}}, row.Others...)
	for i, answer := range successful {
		status := strconv.Itoa(answer.Status)
		if _, known := responses[status]; known {
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
		made := response(cmp.Or(row.Media, "application/json"), sentence(strings.Join(when, "; or ")), schemas...)
		withHeaders(made.Response, row)
		responses[status] = made
	}
	for status, codes := range d.byStatus(row) {
		responses[strconv.Itoa(status)] = d.problems(status, codes)
	}
	return responses, nil
}

// problems returns the response for a status. A response with only one code is shared.
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

func (d *document) byStatus(row *api.Row) map[int][]problem.Code {
	all := map[int][]problem.Code{}
	for _, code := range row.Codes() {
		status := problem.FromCode(code).Status()
		d.used[code] = true
		all[status] = append(all[status], code)
	}
	return all
}

type listedProblem struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"` // default message
}

func (d *document) allProblems() (list []listedProblem) {
	for _, row := range problem.Table() {
		if d.used[row.Code] {
			list = append(list, listedProblem{row.Status, string(row.Code), row.Message})
		}
	}
	return list
}
