package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
)

// TestVocabularies checks that the list of a closed vocabulary contains each constant of its type.
func TestVocabularies(t *testing.T) {
	t.Parallel()
	for _, list := range []any{
		plan.Periods(), plan.Modes(), app.Kinds(), app.Roles(), app.GateStates(), apikey.Statuses(), apikey.LeakPolicies(), apikey.ScopeKinds(), store.LeakResults(), deploy.Triggers(), deploy.Statuses(), deploy.BuildStatuses(),
		audit.Actions(), audit.Outcomes(), reqctx.Kinds(), cluster.RouteKinds(), event.Types(),
	} {
		kind := reflect.TypeOf(list).Elem()
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			var got []string
			for i := range reflect.ValueOf(list).Len() {
				got = append(got, `"`+reflect.ValueOf(list).Index(i).String()+`"`)
			}
			want := constants(t, strings.TrimPrefix(kind.PkgPath(), module), kind.Name())
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 2 {
				t.Errorf("(-constants +list):\n%s", diff)
			}
		})
	}
}

// constants returns the literals of the constants of a type.
func constants(t *testing.T, folder, kind string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	check.OK(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		check.OK(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == kind && len(spec.Values) == 1 {
				value, ok := spec.Values[0].(*ast.BasicLit)
				if !ok {
					t.Fatalf("%s is not a literal", spec.Names[0])
				}
				values = append(values, value.Value)
			}
			return true
		})
	}
	return values
}
