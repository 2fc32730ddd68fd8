package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// source is what the comments of packages api and wire say, and the names of the routes.
type source struct {
	types  map[string]string // what a type is
	fields map[string]string // what a field is, by "Type.Field"
	routes []string          // the names of the routes, in the table's order
	groups []group           // of routes
}

// group is the routes of a function.
type group struct{ name, about string }

func readSource() (*source, error) {
	s := &source{types: map[string]string{}, fields: map[string]string{}}
	for _, pattern := range []string{"shared/wire/*.go", "shared/api/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("%s: no such files here: %w", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.read(file)
		}
	}
	return s, nil
}

func (s *source) read(file *ast.File) {
	for _, declaration := range file.Decls {
		d, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		routes := len(s.routes)
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.readType(d, spec)
			case *ast.ValueSpec:
				if d.Tok == token.VAR && len(spec.Names) == 1 && spec.Names[0].IsExported() && len(spec.Values) == 1 {
					s.routes = append(s.routes, spec.Names[0].Name)
				}
			}
		}
		if name, about, ok := strings.Cut(text(d.Doc), ": "); ok && len(s.routes) > routes {
			s.groups = append(s.groups, group{strings.Fields(name)[1], sentence(about)})
		}
	}
}

func (s *source) readType(d *ast.GenDecl, spec *ast.TypeSpec) {
	name := spec.Name.Name
	s.types[name] = text(d.Doc)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		for _, n := range field.Names {
			s.fields[name+"."+n.Name] = sentence(text(field.Comment))
		}
	}
}

// text is a comment in one line, without what is meant for tools.
func text(c *ast.CommentGroup) string {
	return citation.ReplaceAllString(strings.Join(strings.Fields(c.Text()), " "), "")
}

// citation is where a comment says which promise it keeps.
var citation = regexp.MustCompile(` \(promises?[^)]*\)`)

// sentence begins a text with a capital, unless that is the name of a field or a value,
// and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	if first, _, _ := strings.Cut(s, " "); !strings.ContainsAny(first, "_.") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}
