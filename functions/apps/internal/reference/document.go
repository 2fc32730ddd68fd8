package reference

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// document holds the parts of an OpenAPI 3.1 description that the page shows.
type document struct {
	Info struct {
		Title       string
		Version     string
		Description string
	}
	Tags []struct {
		Name        string
		Description string
	}
	Paths      map[string]map[string]operation // by path and method
	Webhooks   map[string]map[string]operation // events, by type; each is a post
	Components struct {
		Schemas         map[string]schema
		Responses       map[string]response
		SecuritySchemes map[string]securityScheme
	}
	Problems []problemRow `json:"x-problems"`
}

type problemRow struct {
	Status  int
	Code    string
	Message string
}

type operation struct {
	ID          string `json:"operationId"`
	Tags        []string
	Summary     string
	Description string
	Parameters  []struct {
		In          string
		Name        string
		Description string
		Required    bool
		Schema      schema
	}
	RequestBody *struct {
		Required bool
		Content  map[string]media
	}
	Responses map[string]response   // by status
	Security  []map[string][]string // alternatives; each requires all of its schemes
}

// Proofs returns the alternative ways to authenticate. Each requires all of its security schemes.
func (o operation) Proofs() [][]string {
	var all [][]string
	for _, one := range o.Security {
		if len(one) > 0 {
			all = append(all, slices.Sorted(maps.Keys(one)))
		}
	}
	return all
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]media // by media type
}

type media struct {
	Schema  schema
	Example json.RawMessage
}

type securityScheme struct {
	Type        string
	Scheme      string
	In          string
	Name        string
	Description string
}

// Where returns the part of a request that contains the credentials.
func (s securityScheme) Where() string {
	if s.Type == "http" {
		return "header Authorization: Bearer …"
	}
	return s.In + " " + s.Name
}

func (s securityScheme) header() string {
	switch {
	case s.Type == "http":
		return `"Authorization: Bearer $SLUICE_TOKEN"`
	case s.In == "cookie":
		return `"Cookie: ` + s.Name + `=$SLUICE_TOKEN"`
	}
	return `"` + s.Name + `: $TOKEN"`
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        types
	Format      string
	Description string

	Properties map[string]schema
	Required   []string
	Items      *schema
	AllOf      []schema
	AnyOf      []schema
	OneOf      []schema

	Enum             []json.RawMessage
	Default          json.RawMessage
	Examples         []json.RawMessage
	Minimum, Maximum json.Number
	MinLength        int
	MaxLength        int
	MaxItems         int
	UniqueItems      bool
	Pattern          string
}

type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if strings.HasPrefix(string(text), "[") {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(text, &(*t)[0])
}

func (d *document) resolve(s schema) (object schema, name string) {
	name, named := strings.CutPrefix(s.Ref, "#/components/schemas/")
	if !named {
		return s, ""
	}
	return d.Components.Schemas[name], name
}

func (d *document) response(r response) response {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
		return d.Components.Responses[name]
	}
	return r
}
