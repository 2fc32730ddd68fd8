package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/swaggest/jsonschema-go"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

type schemas struct {
	source    *source
	reflector jsonschema.Reflector
	named     map[string]map[string]any
	closed    map[string]bool // types that reject unknown fields
}

const prefix = "#/components/schemas/"

func newSchemas(s *source) *schemas {
	made := &schemas{source: s, named: map[string]map[string]any{}, closed: map[string]bool{}}
	for _, row := range api.Table() {
		if row.HasBody() && row.Need.Session() {
			made.close(row.Request)
		}
	}
	r := &made.reflector
	r.AddTypeMapping(wire.Optional[string]{}, (*string)(nil))
	r.AddTypeMapping(wire.Optional[bool]{}, (*bool)(nil))
	r.AddTypeMapping(wire.Optional[float64]{}, (*float64)(nil))
	r.AddTypeMapping(wire.Optional[int64]{}, (*int64)(nil))
	r.AddTypeMapping(wire.Optional[[]string]{}, (*[]string)(nil))
	r.AddTypeMapping(wire.Text(""), "")
	r.AddTypeMapping(wire.Ordinal(0), int64(0))
	r.DefaultOptions = []func(*jsonschema.ReflectContext){
		jsonschema.DefinitionsPrefix(prefix),
		jsonschema.RootRef,
		jsonschema.InterceptDefName(defName),
		jsonschema.InterceptNullability(listsAreNeverNull),
		jsonschema.InterceptProp(made.field),
		jsonschema.CollectDefinitions(func(name string, s jsonschema.Schema) { made.named[name] = made.finish(name, &s) }),
	}
	return made
}

// close records that a request's type and the types of its fields reject unknown fields.
func (s *schemas) close(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || strings.HasPrefix(t.Name(), "Optional[") {
		return
	}
	s.closed[t.Name()] = true
	for i := range t.NumField() {
		s.close(t.Field(i).Type)
	}
}

// of returns the schema of a type: a reference if the type has a name.
func (s *schemas) of(t reflect.Type) (map[string]any, error) {
	schema, err := s.reflector.Reflect(reflect.New(t).Elem().Interface())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return plain(&schema)
}

func (s *schemas) finish(name string, schema *jsonschema.Schema) map[string]any {
	if about := s.source.types[name]; about != "" {
		schema.WithDescription(about)
	}
	if s.closed[name] {
		schema.WithAdditionalProperties(*(&jsonschema.SchemaOrBool{}).WithTypeBoolean(false))
	}
	m, err := plain(schema)
	if err != nil {
		panic(err)
	}
	return m
}

// value returns the schema of a parameter: an integer if the kind has numeric bounds, otherwise a
// string.
func (s *schemas) value(name string) (map[string]any, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("no kind %q", name)
	}
	var schema jsonschema.Schema
	if k.max != 0 {
		schema.AddType(jsonschema.Integer)
	} else {
		schema.AddType(jsonschema.String)
	}
	k.limit(&schema)
	return plain(&schema)
}

type parameter struct {
	name, about string
	schema      map[string]any
}

func (s *schemas) query(t reflect.Type) (all []parameter, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner, err := s.query(f.Type)
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
			continue
		}
		p := parameter{name: f.Tag.Get("query"), about: s.about(t, f.Name), schema: map[string]any{"type": "string"}}
		if name, ok := f.Tag.Lookup("kind"); ok {
			if p.schema, err = s.value(name); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func plain(s *jsonschema.Schema) (map[string]any, error) { return s.ToSchemaOrBool().ToSimpleMap() }

var listOf = regexp.MustCompile(`^.*List\[.*\.(\w+)\].*$`)

// defName returns the schema's name: the name of the type, or the item type followed by List.
func defName(t reflect.Type, _ string) string {
	if found := listOf.FindStringSubmatch(t.Name()); found != nil {
		return found[1] + "List"
	}
	return t.Name()
}

func listsAreNeverNull(p jsonschema.InterceptNullabilityParams) {
	if p.NullAdded && p.Type.Kind() == reflect.Slice {
		p.Schema.RemoveType(jsonschema.Null)
	}
}

func (s *schemas) field(p jsonschema.InterceptPropParams) error {
	if !p.Processed {
		return nil
	}
	if about := s.about(p.ParentSchema.ReflectType, p.Field.Name); about != "" {
		p.PropertySchema.WithDescription(about)
	}
	switch {
	case p.Field.Tag.Get("required") == "true":
		p.PropertySchema.RemoveType(jsonschema.Null)
	case strings.HasPrefix(p.Field.Type.Name(), "Optional[") && p.Field.Tag.Get("nullable") != "false":
		p.PropertySchema.AddType(jsonschema.Null)
	case p.Field.Type == reflect.TypeFor[wire.Text](), p.Field.Type == reflect.TypeFor[wire.Ordinal]():
		p.PropertySchema.AddType(jsonschema.Null)
	}
	if name, ok := p.Field.Tag.Lookup("kind"); ok {
		k, known := kinds[name]
		if !known {
			return fmt.Errorf("%s: no kind %q", p.Name, name)
		}
		k.limit(p.PropertySchema)
	}
	tag := p.Field.Tag.Get("json")
	if ref := p.PropertySchema.Ref; ref != nil && p.Field.Type.Kind() == reflect.Pointer && !strings.Contains(tag, ",omit") {
		null := (&jsonschema.Schema{}).WithType(jsonschema.Null.Type())
		p.PropertySchema.Ref = nil
		p.PropertySchema.AnyOf = []jsonschema.SchemaOrBool{(&jsonschema.Schema{Ref: ref}).ToSchemaOrBool(), null.ToSchemaOrBool()}
	}
	if tag != "" && p.Field.Tag.Get("optional") != "true" && !strings.Contains(tag, ",omit") && !slices.Contains(p.ParentSchema.Required, p.Name) {
		p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
	}
	return nil
}

// about returns the comment of a field, which may be in an embedded struct.
func (s *schemas) about(t reflect.Type, field string) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return ""
	}
	found, ok := t.FieldByName(field)
	if !ok {
		return ""
	}
	for _, i := range found.Index[:len(found.Index)-1] {
		t = t.Field(i).Type
	}
	name, _, _ := strings.Cut(t.Name(), "[")
	return s.source.fields[name+"."+field]
}
