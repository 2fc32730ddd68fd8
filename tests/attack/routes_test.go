package attack

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const apiPrefix = "/api/v1/"

// routes are the patterns of the management API that the functions register, e.g.
// "GET /api/v1/projects/{project}", read from their source: a route that is added is
// found without anybody telling this test.
func routes(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join("..", "..", "functions", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, folder := range folders {
		all = append(all, patterns(t, folder)...)
	}
	slices.Sort(all)
	return all
}

// patterns are those of one function: the first argument of every call of a Handle
// or HandleFunc, which must be a constant that the compiler knows.
func patterns(t *testing.T, folder string) []string {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// What is imported is not looked at: constants need none of it.
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	check := types.Config{Importer: nowhere{}, Error: func(error) {}}
	_, _ = check.Check(folder, set, files, info)
	var found []string
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Handle" && method.Sel.Name != "HandleFunc" {
				return true
			}
			value := info.Types[call.Args[0]].Value
			if value == nil || value.Kind() != constant.String {
				if !outside(info, call.Args[0]) {
					t.Errorf("%s: the pattern is no constant, and may be one of the API's", set.Position(call.Pos()))
				}
				return true
			}
			if p := constant.StringVal(value); strings.Contains(p, apiPrefix) {
				found = append(found, p)
			}
			return true
		})
	}
	return found
}

// outside tells whether a pattern that is put together begins with a constant that
// keeps it out of the API, such as "GET /console".
func outside(info *types.Info, pattern ast.Expr) bool {
	for {
		sum, ok := pattern.(*ast.BinaryExpr)
		if !ok {
			return false
		}
		pattern = sum.X
		value := info.Types[pattern].Value
		if value == nil || value.Kind() != constant.String {
			continue
		}
		_, path, found := strings.Cut(constant.StringVal(value), "/")
		return found && path != "" && !strings.HasPrefix("/"+path, apiPrefix) && !strings.HasPrefix(apiPrefix, "/"+path)
	}
}

// nowhere imports nothing.
type nowhere struct{}

func (nowhere) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }
