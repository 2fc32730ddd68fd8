package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// measures are those of a checkout.
type measures struct {
	rooms   map[string]map[string]size // by top level and folder below it, e.g. "functions", "keys"
	lengths []int                      // of files

	imports, errorReturns, manifests int // lines

	interfaces, implemented int
	handlers                []int // lines of each
}

type size struct{ lines, files int }

// measure reads a checkout.
func measure(root fs.FS) (*measures, error) {
	m := &measures{rooms: map[string]map[string]size{}}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		manifest := strings.HasPrefix(name, "infra/") && path.Ext(name) == ".yaml"
		source := path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
		if !manifest && !source {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if manifest {
			m.manifests += bytes.Count(text, []byte("\n"))
			return nil
		}
		return m.add(name, text)
	})
	if err == nil && len(m.lengths) == 0 {
		err = errors.New("no Go files")
	}
	return m, err
}

// add counts a file of Go.
func (m *measures) add(name string, text []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := bytes.Count(text, []byte("\n"))
	m.lengths = append(m.lengths, lines)
	top, below, _ := strings.Cut(name, "/")
	room, _, nested := strings.Cut(below, "/")
	if !nested || top == "tests" || top == "infra" {
		room = ""
	}
	if m.rooms[top] == nil {
		m.rooms[top] = map[string]size{}
	}
	s := m.rooms[top][room]
	m.rooms[top][room] = size{s.lines + lines, s.files + 1}

	length := func(n ast.Node) int { return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1 }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.IMPORT {
				m.imports += length(n)
			}
			if n.Tok == token.TYPE && top == "functions" {
				m.addInterfaces(n)
			}
		case *ast.IfStmt:
			if returnsError(n) {
				m.errorReturns += length(n)
			}
		case *ast.FuncDecl:
			if top == "functions" && room != "console" && isHandler(n.Type) {
				m.handlers = append(m.handlers, length(n))
			}
		}
		return true
	})
	return nil
}

func (m *measures) addInterfaces(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if _, ok := t.Type.(*ast.InterfaceType); !ok {
			continue
		}
		m.interfaces++
		if strings.Contains(d.Doc.Text()+t.Doc.Text(), "implements it") {
			m.implemented++
		}
	}
}

// returnsError tells of "if err != nil" with nothing but a return.
func returnsError(s *ast.IfStmt) bool {
	condition, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || condition.Op != token.NEQ || s.Else != nil || len(s.Body.List) != 1 {
		return false
	}
	left, _ := condition.X.(*ast.Ident)
	right, _ := condition.Y.(*ast.Ident)
	_, returns := s.Body.List[0].(*ast.ReturnStmt)
	return left != nil && left.Name == "err" && right != nil && right.Name == "nil" && returns
}

func isHandler(f *ast.FuncType) bool {
	in, out := types(f.Params), types(f.Results)
	switch {
	case len(in) == 2 && len(out) == 1:
		return in[0] == "http.ResponseWriter" && in[1] == "*http.Request" && out[0] == "error"
	case len(in) == 3 && len(out) == 2:
		return in[0] == "context.Context" && strings.HasSuffix(in[1], "Scope") && out[1] == "error"
	}
	return false
}

// types writes the type of each of a function's parameters or results; those that no
// handler's shape names are "".
func types(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			names = append(names, typeName(field.Type))
		}
	}
	return names
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	}
	return ""
}
