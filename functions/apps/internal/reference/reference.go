// Package reference serves the API's OpenAPI description, and pages that are rendered from it: an
// index with a search, and a page for each group of calls, for the events and for the problems. The
// pages load nothing. Their only script filters the contents while the user types; without it, the
// search is a form.
package reference

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

//go:embed page.html
var layout string

//go:embed style.css
var style string

//go:embed search.js
var script string

const kind = "text/html; charset=utf-8"

// Serve registers the routes. The files are rendered on first use.
func Serve(a *httpapi.API) {
	description := sync.OnceValues(func() (httpapi.File, error) {
		return httpapi.NewFile("application/json", "no-cache", api.OpenAPI)
	})
	reference := sync.OnceValues(func() (*site, error) { return newSite(api.OpenAPI) })
	serve := func(row *api.Row, policy string, answer func(http.ResponseWriter, *http.Request) error) {
		httpapi.ServeRaw(a, row, func(w http.ResponseWriter, r *http.Request, _ httpapi.Scope) error {
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			return answer(w, r)
		})
	}
	serve(api.GetDescription.Row, closed+"; form-action 'none'", func(w http.ResponseWriter, r *http.Request) error {
		f, err := description()
		if err != nil {
			return err
		}
		return f.Serve(w, r)
	})
	show := func(w http.ResponseWriter, r *http.Request) error {
		s, err := reference()
		if err != nil {
			return err
		}
		return s.serve(w, r)
	}
	policy := closed + "; form-action 'self'; style-src " + hashOf(style) + "; script-src " + hashOf(script)
	serve(api.GetReference.Row, policy, show)
	serve(api.GetReferenceGroup.Row, policy, show)
}

const closed = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// site holds the rendered pages.
type site struct {
	page  page // without a selected group
	draw  *template.Template
	files map[string]httpapi.File // by the last part of the path; "" is the index
}

// The pages that are not about a group of calls.
const (
	indexPage    = ""
	eventsPage   = "events"
	problemsPage = "problems"
)

func newSite(description []byte) (*site, error) {
	var d document
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, fmt.Errorf("read API description: %w", err)
	}
	t, err := template.New("page").Funcs(template.FuncMap{"marked": marked, "paragraphs": paragraphs, "pair": func(a, b any) [2]any { return [2]any{a, b} }}).Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("parse reference page: %w", err)
	}
	s := &site{draw: t, files: map[string]httpapi.File{}, page: page{
		document: d, Groups: d.groups(), Events: d.events(), Home: api.GetReference.Path,
		Style: template.CSS(style), Script: template.JS(script), //nolint:gosec // embedded
	}}
	names := []string{indexPage, eventsPage, problemsPage}
	for _, g := range s.page.Groups {
		names = append(names, g.Name)
	}
	for _, name := range names {
		text, err := s.render(name, "")
		if err != nil {
			return nil, err
		}
		if s.files[name], err = httpapi.NewFile(kind, "no-cache", text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// render renders a page. The index contains the results of a search.
func (s *site) render(name, search string) ([]byte, error) {
	p := s.page
	p.Here, p.Query = name, search
	for i, g := range p.Groups {
		if g.Name == name {
			p.Group = &p.Groups[i]
		}
	}
	if search != "" {
		p.Found = p.search(search)
	}
	var b bytes.Buffer
	if err := s.draw.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("render reference page: %w", err)
	}
	return b.Bytes(), nil
}

const maxQuery = 200 // characters of a search

// serve writes a page. Results of a search are rendered for each request.
func (s *site) serve(w http.ResponseWriter, r *http.Request) error {
	name, search := r.PathValue("group"), strings.TrimSpace(r.URL.Query().Get("q"))
	f, ok := s.files[name]
	switch {
	case !ok:
		return problem.FromCode(problem.NotFound)
	case name != indexPage || search == "":
		return f.Serve(w, r)
	case utf8.RuneCountInString(search) > maxQuery:
		return problem.New(problem.InvalidParameter, "q must have at most %d characters.", maxQuery)
	}
	text, err := s.render(name, search)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(text) // an error means that the client is gone
	return nil
}

type page struct {
	document

	Home   string // path of the index
	Here   string // name of the page
	Group  *group // group of the page, or nil
	Groups []group
	Events []sent
	Query  string
	Found  *found // results of a search, or nil
	Style  template.CSS
	Script template.JS
}

// found holds the results of a search.
type found struct {
	Operations []shown
	Events     []sent
	Problems   []problemRow
}

// Count returns the number of results.
func (f found) Count() int { return len(f.Operations) + len(f.Events) + len(f.Problems) }

// search finds the parts that contain all words of a text. Calls with these words in their names
// are first.
func (p page) search(text string) *found {
	wanted := strings.Fields(strings.ToLower(text))
	matches := func(words string) bool {
		return !slices.ContainsFunc(wanted, func(word string) bool { return !strings.Contains(words, word) })
	}
	var f found
	var others []shown
	for _, g := range p.Groups {
		for _, o := range g.Operations {
			switch {
			case matches(searchable(o.names()...)):
				f.Operations = append(f.Operations, o)
			case matches(o.Words):
				others = append(others, o)
			}
		}
	}
	f.Operations = append(f.Operations, others...)
	for _, e := range p.Events {
		if matches(e.Words) {
			f.Events = append(f.Events, e)
		}
	}
	for _, one := range p.Problems {
		if matches(searchable(one.Code, one.Message)) {
			f.Problems = append(f.Problems, one)
		}
	}
	return &f
}

// searchable returns the words of texts in lower case, each once.
func searchable(texts ...string) string {
	var words []string
	known := map[string]bool{}
	for word := range strings.FieldsSeq(strings.ToLower(strings.Join(texts, " "))) {
		if !known[word] {
			known[word], words = true, append(words, word)
		}
	}
	return strings.Join(words, " ")
}

type sent struct {
	operation
	Type   string
	Words  string // for searches
	Body   *content
	Sample string
}

func (d *document) events() []sent {
	var all []sent
	for _, name := range slices.Sorted(maps.Keys(d.Webhooks)) {
		op := d.Webhooks[name]["post"]
		e := sent{operation: op, Type: name}
		if op.RequestBody != nil {
			e.Body = d.content(op.RequestBody.Content)
			var b bytes.Buffer
			if json.Indent(&b, op.RequestBody.Content[e.Body.Kind].Example, "", "  ") == nil {
				e.Sample = b.String()
			}
		}
		e.Words = searchable(append(e.Body.names(), e.Type, e.Summary)...)
		all = append(all, e)
	}
	return all
}

type group struct {
	Name       string
	About      string
	Operations []shown
}

type shown struct {
	operation
	Group        string
	Method, Path string
	Short        string // the summary, for a list
	Words        string // for searches
	Parameters   []parameter
	Body         *content // request body, or nil
	Answers      []answer // successful ones
	Problems     []failure
	Curl         string
}

func (s shown) names() []string { return []string{s.Method, s.Path, s.ID, s.Summary} }

func (s shown) words() string {
	all := append(s.names(), s.Description)
	for _, p := range s.Parameters {
		all = append(all, p.Name)
	}
	all = append(all, s.Body.names()...)
	for _, a := range s.Answers {
		all = append(all, a.Body.names()...)
	}
	return searchable(all...)
}

type parameter struct {
	In string // path, query or header
	field
}

type content struct {
	Kind     string // media type
	Optional bool
	Shapes   []shape
}

// names returns the names of all fields.
func (c *content) names() (names []string) {
	if c == nil {
		return nil
	}
	for _, s := range c.Shapes {
		for _, f := range s.Fields {
			names = append(names, f.Name)
		}
	}
	return names
}

type shape struct {
	Name   string
	About  string
	Fields []field
}

type answer struct {
	Status int
	About  string
	Body   *content // nil if there is none
}

type failure struct {
	Status int
	Codes  []string
}

func (d *document) groups() []group {
	var all []group
	for _, t := range d.Tags {
		all = append(all, group{Name: t.Name, About: t.Description})
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			op, ok := d.Paths[path][method]
			if !ok {
				continue
			}
			in := slices.IndexFunc(all, func(g group) bool { return slices.Contains(op.Tags, g.Name) })
			if in < 0 {
				in = len(all)
				all = append(all, group{Name: strings.Join(op.Tags, " ")})
			}
			one := d.show(strings.ToUpper(method), path, op)
			one.Group = all[in].Name
			all[in].Operations = append(all[in].Operations, one)
		}
	}
	return slices.DeleteFunc(all, func(g group) bool { return len(g.Operations) == 0 })
}

func (d *document) show(method, path string, op operation) shown {
	s := shown{operation: op, Method: method, Path: path, Short: op.Summary}
	if end := strings.IndexAny(op.Summary, ":;"); end > 0 {
		s.Short = op.Summary[:end]
	}
	for _, p := range op.Parameters {
		s.Parameters = append(s.Parameters, parameter{p.In, d.field(p.Name, p.Schema, p.Required, p.Description)})
	}
	if op.RequestBody != nil {
		s.Body = d.content(op.RequestBody.Content)
		s.Body.Optional = !op.RequestBody.Required
	}
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		r := d.response(op.Responses[code])
		status, err := strconv.Atoi(code)
		if err != nil || status >= 400 {
			s.Problems = append(s.Problems, failure{status, d.codes(r)})
			continue
		}
		s.Answers = append(s.Answers, answer{status, r.Description, d.content(r.Content)})
	}
	s.Curl, s.Words = d.curl(s), s.words()
	return s
}

// content returns the body for the first media type.
func (d *document) content(kinds map[string]media) *content {
	if len(kinds) == 0 {
		return nil
	}
	c := &content{Kind: slices.Sorted(maps.Keys(kinds))[0]}
	alternatives := kinds[c.Kind].Schema.OneOf
	if len(alternatives) == 0 {
		alternatives = []schema{kinds[c.Kind].Schema}
	}
	for _, one := range alternatives {
		object, name := d.resolve(one)
		c.Shapes = append(c.Shapes, shape{name, object.Description, d.fields(object, "", 0)})
	}
	return c
}

func (d *document) codes(r response) []string {
	var all []string
	for _, m := range r.Content {
		for _, part := range append([]schema{m.Schema}, m.Schema.AllOf...) {
			object, _ := d.resolve(part)
			for _, code := range object.Properties["code"].Enum {
				all = append(all, plain(code))
			}
		}
	}
	return all
}

func (d *document) curl(s shown) string {
	var b strings.Builder
	path := s.Path
	for _, p := range s.Parameters {
		if p.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", cmp.Or(p.Example, strings.ToUpper(p.Name)))
		}
	}
	b.WriteString("curl ")
	if s.Method != http.MethodGet {
		b.WriteString("-X " + s.Method + " ")
	}
	b.WriteString(`"$SLUICE_URL` + path + `"`)
	if len(s.Security) > 0 {
		for _, name := range slices.Sorted(maps.Keys(s.Security[0])) {
			b.WriteString(" \\\n  -H " + d.Components.SecuritySchemes[name].header())
		}
	}
	if s.RequestBody != nil {
		sent := d.example(s.RequestBody.Content["application/json"].Schema)
		if !s.Body.Optional || sent != "{}" {
			b.WriteString(" \\\n  -H 'Content-Type: application/json' -d '" + strings.ReplaceAll(sent, "'", `'\''`) + "'")
		}
	}
	return b.String()
}
