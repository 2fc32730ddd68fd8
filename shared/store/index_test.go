package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

type indexFile struct {
	Indexes []struct {
		Collection string `json:"collectionGroup"`
		Scope      string `json:"queryScope"`
		Fields     []struct {
			Path  string `json:"fieldPath"`
			Order string `json:"order"`
			Array string `json:"arrayConfig"`
		} `json:"fields"`
	} `json:"indexes"`
	Overrides []struct {
		Collection string `json:"collectionGroup"`
		Path       string `json:"fieldPath"`
		TTL        bool   `json:"ttl"`
		Indexes    []any  `json:"indexes"`
	} `json:"fieldOverrides"`
}

func readIndexes(t *testing.T) indexFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "infra", "firestore", "firestore.indexes.json"))
	check.OK(t, err)
	var f indexFile
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	check.OK(t, d.Decode(&f))
	return f
}

// indexNeeds describes the parts of a query that require indexes.
type indexNeeds struct {
	collection string
	equal      []string // fields compared with ==, in or array-contains
	ranged     []string // fields with other comparisons or orders; "f desc" too
}

// composite returns the fields of the composite index that Firestore requires for a query. It
// requires none for equalities, or for the range or order of one field.
func (a indexNeeds) composite() []string {
	if len(a.ranged) == 0 || len(a.equal) == 0 && len(a.ranged) == 1 {
		return nil
	}
	return append(slices.Clone(a.equal), a.ranged...)
}

// served reports whether indexes serve a query. Firestore merges indexes, one for each equality,
// that end in the same fields.
func (a indexNeeds) served(indexes []string) bool {
	need := a.composite()
	has := func(fields ...string) bool {
		return slices.Contains(indexes, a.collection+" "+strings.Join(fields, " "))
	}
	return need == nil || has(need...) || len(a.equal) > 0 && !slices.ContainsFunc(a.equal, func(f string) bool {
		return !has(append([]string{f}, a.ranged...)...)
	})
}

type recorder struct {
	mu   sync.Mutex
	seen map[string]indexNeeds
}

func (r *recorder) intercept(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, s grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := s(ctx, d, cc, method, opts...)
	return recordedStream{stream, r}, err
}

type recordedStream struct {
	grpc.ClientStream
	recorder *recorder
}

func (s recordedStream) SendMsg(m any) error {
	if q, ok := m.(*pb.RunQueryRequest); ok {
		s.recorder.note(q.GetStructuredQuery())
	}
	return s.ClientStream.SendMsg(m)
}

func (r *recorder) note(q *pb.StructuredQuery) {
	a := indexNeeds{collection: q.GetFrom()[0].GetCollectionId()}
	var filters func(f *pb.StructuredQuery_Filter)
	filters = func(f *pb.StructuredQuery_Filter) {
		for _, part := range f.GetCompositeFilter().GetFilters() {
			filters(part)
		}
		one := f.GetFieldFilter()
		if one == nil {
			return
		}
		switch path := one.GetField().GetFieldPath(); one.GetOp() {
		case pb.StructuredQuery_FieldFilter_EQUAL, pb.StructuredQuery_FieldFilter_IN, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS, pb.StructuredQuery_FieldFilter_ARRAY_CONTAINS_ANY:
			a.equal = append(a.equal, path)
		default:
			if path != firestore.DocumentID && !slices.Contains(a.ranged, path) {
				a.ranged = append(a.ranged, path)
			}
		}
	}
	filters(q.GetWhere())
	for _, o := range q.GetOrderBy() {
		path, order := o.GetField().GetFieldPath(), o.GetField().GetFieldPath()
		if o.GetDirection() == pb.StructuredQuery_DESCENDING {
			order += " desc"
		}
		switch i := slices.Index(a.ranged, path); {
		case path == firestore.DocumentID:
		case i >= 0:
			a.ranged[i] = order
		default:
			a.ranged = append(a.ranged, order)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[fmt.Sprint(a)] = a
}

// untestedFields contains queried fields that these tests cannot cause.
var untestedFields = map[string]string{
	"record": "deployments, after a commit whose response was lost: only an equality",
}

// TestIndexes verifies that each query has its index, and that no query uses a field without an
// index.
func TestIndexes(t *testing.T) {
	t.Parallel()
	r := &recorder{seen: map[string]indexNeeds{}}
	s, err := store.OpenIntercepted(t.Context(), storetest.Project(t), r.intercept)
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	runAllQueries(t, s)
	file := readIndexes(t)
	var have []string
	for _, index := range file.Indexes {
		fields := index.Collection
		for _, f := range index.Fields {
			fields += " " + f.Path + map[string]string{"ASCENDING": "", "DESCENDING": " desc"}[f.Order]
		}
		have = append(have, fields)
	}
	fields := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		a := r.seen[key]
		t.Logf("%s: equal %v, range or order %v", a.collection, a.equal, a.ranged)
		for _, f := range slices.Concat(a.equal, a.ranged) {
			f = strings.TrimSuffix(f, " desc")
			fields[f] = true
			for _, o := range file.Overrides {
				if o.Collection == a.collection && o.Path == f && len(o.Indexes) == 0 {
					t.Errorf("queried field %s.%s has no index", o.Collection, o.Path)
				}
			}
		}
		if !a.served(have) {
			t.Errorf("query of %s has no composite index on %v", a.collection, a.composite())
		}
	}
	for _, f := range queriedInSource(t) {
		if !fields[f] && untestedFields[f] == "" {
			t.Errorf("no query in runAllQueries uses field %q, which the source queries", f)
		}
	}
}

// runAllQueries makes every query of the store at least once.
func runAllQueries(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, page := t.Context(), store.Page{Size: 10}
	storetest.Environment(t, s, "shop", "prod")
	check := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	ref := app.Ref{Namespace: "shop-prod", Name: "hello"}
	check(s.CreateApp(ctx, app.App{Project: "shop", Environment: "prod", Namespace: "shop-prod", Name: "hello", Host: "hello.example.com", CreatedAt: noon(), Image: "registry.example/a:v1"}, store.InitialState{}))
	revision, err := s.RecordDeployment(ctx, ref, func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.New("registry.example/a:v1", "", deploy.Manual, "ada", noon()), nil
	})
	check(err)
	_, err = s.UpdateDeployment(ctx, ref, revision.Number, func(r deploy.Revision) (deploy.Revision, bool) {
		r.Status, r.FinishedAt = deploy.Live, noon()
		return r, true
	})
	check(err)
	p := plan.Plan{ID: "plan-starter", Namespace: "shop-prod", Name: "Starter", Limits: plan.Limits{Rate: 1, Burst: 1}, CreatedAt: noon()}
	check(errorOf(s.CreatePlan(ctx, p)))
	_, _, err = s.Projects(ctx, "ada", page)
	check(err)
	check(s.CreateToken(ctx, newToken(t, "shop", "nightly")))
	_, _, err = s.Tokens(ctx, "shop", page)
	check(err)
	_, _, err = s.Environments(ctx, "shop", page)
	check(err)
	_, _, err = s.Apps(ctx, "shop-prod", page)
	check(err)
	_, _, err = s.Plans(ctx, "shop-prod", page)
	check(err)
	_, err = s.EnvironmentPlans(ctx, "shop-prod")
	check(err)
	for _, f := range []store.KeyFilter{
		{Project: "shop"},
		{Project: "shop", Environment: "prod"},
		{Project: "shop", Environment: "prod", Plan: p.ID},
		{Project: "shop", Plan: p.ID},
		{Project: "shop", Environment: "prod", Plan: p.ID, Status: apikey.Active},
	} {
		_, _, err = s.Keys(ctx, f, page)
		check(err)
		for _, err := range s.EachListed(ctx, f, "") {
			check(err)
		}
		for _, q := range []store.KeySearch{{}, {Text: "a"}, {App: "hello"}, {Tag: "batch"}, {Expired: noon()}, {Expired: noon(), Text: "a"}, {Expired: noon(), App: "hello"}, {Expired: noon(), Tag: "batch"}} {
			q.KeyFilter = f
			for _, q.LastSeen = range []bool{false, true} {
				_, err = s.FindKeys(ctx, q, store.KeyPlace{}, 10)
				check(err)
			}
			q.Unseen = usage.DayOf(noon())
			_, err = s.FindKeys(ctx, q, store.KeyPlace{}, 10)
			check(err)
			q.Name = true
			_, err = s.FindKeys(ctx, q, store.KeyPlace{}, 10)
			check(err)
		}
		_, _, err = s.CountListed(ctx, f)
		check(err)
	}
	for _, f := range []store.KeyFilter{{Project: "shop", Environment: "prod", Usable: true}, {Project: "shop", Environment: "prod", Plan: p.ID, Usable: true}} {
		for _, err := range s.EachListed(ctx, f, "") {
			check(err)
		}
	}
	_, err = s.FindKeys(ctx, store.KeySearch{KeyFilter: store.KeyFilter{Project: "shop", Environment: "prod"}, Leaked: noon()}, store.KeyPlace{}, 10)
	check(err)
	_, _, err = s.RelistKeys(ctx, "", 10, func(apikey.Key, usage.History) {})
	check(err)
	_, _, _, err = s.RelistChanged(ctx, noon(), 10)
	check(err)
	_, _, err = s.Deployments(ctx, ref, page)
	check(err)
	_, _, err = s.Builds(ctx, ref, page)
	check(err)
	_, _, err = s.PendingBuilds(ctx, page)
	check(err)
	_, err = s.OpenBuilds(ctx, ref)
	check(err)
	_, _, err = s.Users(ctx, page)
	check(err)
	_, err = s.HadUsers(ctx)
	check(err)
	_, err = s.TokensCreatedBy(ctx, "ada")
	check(err)
	check(s.CreateUser(ctx, user.User{Name: "root", Admin: true}))
	if s.RemoveUser(ctx, "root") == nil {
		t.Error("got no error for the removal of the last admin")
	}
	_, err = s.Announcements(ctx, event.Cursor{}, 10)
	check(err)
	for range 2 { // the first call only stores a position
		_, err = s.AnnounceExpiries(ctx, event.Expiries()[0], 10)
		check(err)
	}
	_, err = s.DeleteThresholds(ctx, noon(), 10)
	check(err)
	day := usage.DayOf(noon())
	check(s.EachCounter(ctx, day, day, func(usage.Counter) error { return nil }))
	_, _ = s.OldestCounter(ctx)
	_, err = s.DeleteCounters(ctx, day)
	check(err)
	_, err = s.RollupsOlder(ctx, day, 10)
	check(err)
	_, err = s.DeleteRevokedKeys(ctx, noon(), 10)
	check(err)
	_, err = s.DeleteStaleCanaries(ctx, noon())
	check(err)
	everything := audit.Query{Project: "shop", From: noon(), To: noon(), Actor: "ada", Actions: []audit.Action{"app.create", "app.update"}, Resource: "projects/shop"}
	_, _, err = s.Records(ctx, everything, page)
	check(err)
	everything.Actor = "webhook"
	_, _, err = s.Activity(ctx, app.Environment{Project: "shop", Name: "prod", Namespace: "shop-prod"}, "", everything, page)
	check(err)
	_, err = s.DeleteRecords(ctx, noon(), 10)
	check(err)
	_, _, err = s.Receipts(ctx, ref, noon(), page)
	check(err)
	_, err = s.DeleteReservations(ctx, noon(), 10)
	check(err)
	_, _, err = s.Reservations(ctx, page)
	check(err)
	_, err = s.DeleteReceipts(ctx, noon(), 10)
	check(err)
	_, err = s.DeleteLeases(ctx, noon(), 10)
	check(err)
	check(s.DeletePlan(ctx, "shop-prod", p.ID, always))
	if storetest.DeleteEnvironment(ctx, s, "shop", "prod") == nil || storetest.DeleteProject(ctx, s, "shop") == nil {
		t.Error("got no error for a deletion with content")
	}
	check(storetest.DeleteApp(ctx, s, ref))
	check(storetest.DeleteEnvironment(ctx, s, "shop", "prod"))
}

func queriedInSource(t *testing.T) []string {
	t.Helper()
	var fields []string
	eachFile(t, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(method.Sel.Name, "Where") && !strings.HasPrefix(method.Sel.Name, "OrderBy") {
				return true
			}
			if path, ok := call.Args[0].(*ast.BasicLit); ok {
				field, err := strconv.Unquote(path.Value)
				check.OK(t, err)
				fields = append(fields, field)
			}
			return true
		})
	}, ".")
	if len(fields) < 10 {
		t.Fatalf("queried fields in the source: got %v, want at least 10", fields)
	}
	return fields
}

func eachFile(t *testing.T, look func(f *ast.File), folders ...string) {
	t.Helper()
	var names []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		check.OK(t, err)
		names = append(names, found...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		check.OK(t, err)
		look(f)
	}
}

// TestIndexOverridesNameStoredFields verifies that the file names only existing fields, and a TTL only for documents
// that may be deleted.
func TestIndexOverridesNameStoredFields(t *testing.T) {
	t.Parallel()
	stored := map[string]bool{}
	eachFile(t, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				tag, err := strconv.Unquote(field.Tag.Value)
				check.OK(t, err)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("firestore"), ",")
				stored[name] = true
			}
			return true
		})
	}, ".", "../app", "../deploy", "../apikey", "../plan", "../hook", "../audit", "../event", "../identity/user", "../identity/servicetoken")
	var ttl []string
	for _, o := range readIndexes(t).Overrides {
		if !stored[o.Path] {
			t.Errorf("no document has the field %q (%s)", o.Path, o.Collection)
		}
		if o.TTL {
			ttl = append(ttl, o.Collection+"."+o.Path)
		}
	}
	slices.Sort(ttl)
	if want := []string{"announcements.expires_at", "audit.expires_at", "deliveries.expires_at", "receipts.expires_at", "sessions.expires_at"}; !slices.Equal(ttl, want) {
		t.Errorf("TTL fields: got %v, want %v", ttl, want)
	}
}
