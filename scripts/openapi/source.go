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

type source struct {
	types  map[string]string // descriptions of types
	fields map[string]string // descriptions of fields by "Type.Field"
	routes []string          // names of the routes, in the order of the table
	groups []group
}

// group is the function that serves a group of routes.
type group struct{ name, about string }

func readSource() (*source, error) {
	s := &source{types: map[string]string{}, fields: map[string]string{}}
	for _, pattern := range []string{"shared/api/*.go", "shared/wire/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no files match %s: %w", pattern, err)
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

func text(c *ast.CommentGroup) string {
	return citation.ReplaceAllString(strings.Join(strings.Fields(c.Text()), " "), "")
}

var citation = regexp.MustCompile(` \(promises?[^)]*\)`)

// sentence capitalizes the first word, unless it is an identifier, and adds a period.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	if first, _, _ := strings.Cut(s, " "); !strings.ContainsAny(first, "_.") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}
