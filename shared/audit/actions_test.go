package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestActions: the list has each constant that is an action.
func TestActions(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "audit.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Action" {
			value, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no text", spec.Names[0])
			}
			want = append(want, value.Value)
		}
		return true
	})
	var got []string
	for _, a := range Actions() {
		got = append(got, `"`+string(a)+`"`)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 20 {
		t.Errorf("actions (-constants +list):\n%s", diff)
	}
}
