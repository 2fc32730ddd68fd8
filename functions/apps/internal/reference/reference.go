// Package reference serves the API's OpenAPI description, and a page that is rendered from it.
// The page is one file without scripts or external resources.
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

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
)

//go:embed page.html
var layout string

//go:embed style.css
var style string

// Serve registers the routes. The files are rendered on first use.
func Serve(a *httpapi.API) {
	description := sync.OnceValues(func() (httpapi.File, error) {
		return httpapi.NewFile("application/json", "no-cache", api.OpenAPI)
	})
	page := sync.OnceValues(func() (httpapi.File, error) {
		text, err := render(api.OpenAPI)
		if err != nil {
			return httpapi.File{}, err
		}
		return httpapi.NewFile("text/html; charset=utf-8", "no-cache", text)
	})
	serve := func(row *api.Row, file func() (httpapi.File, error), policy string) {
		httpapi.ServeRaw(a, row, func(w http.ResponseWriter, r *http.Request, _ httpapi.Scope) error {
			f, err := file()
			if err != nil {
				return err
			}
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			return f.Serve(w, r)
		})
	}
	serve(api.GetDescription.Row, description, closed)
	serve(api.GetReference.Row, page, closed+"; style-src '"+styleHash()+"'")
}

const closed = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func styleHash() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func render(description []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, fmt.Errorf("read API description: %w", err)
	}
	t, err := template.New("page").Funcs(template.FuncMap{"marked": marked, "paragraphs": paragraphs}).Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("parse reference page: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, page{
		document: d, Groups: d.groups(), Events: d.events(),
		Style: template.CSS(style), //nolint:gosec // embedded
	})
	if err != nil {
		return nil, fmt.Errorf("render reference page: %w", err)
	}
	return b.Bytes(), nil
}

type page struct {
	document
	Groups []group
	Events []sent
	Style  template.CSS
}

type sent struct {
	operation
	Type   string
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
	Method, Path string
	Short        string // the summary, for a list
	Parameters   []parameter
	Body         *content // request body, or nil
	Answers      []answer // successful ones
	Problems     []failure
	Curl         string
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
			all[in].Operations = append(all[in].Operations, d.show(strings.ToUpper(method), path, op))
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
	s.Curl = d.curl(s)
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
