package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// named issues keys with names; the n-th has n apps, of which there are two.
func (w *world) named(names ...string) map[string]wire.IssuedKey {
	w.Helper()
	all := map[string]wire.IssuedKey{}
	for i, name := range names {
		body, err := json.Marshal(wire.CreateKey{Plan: new("plan-starter"), Name: name, Apps: []string{"hello", "other"}[:i%3]})
		check.OK(w, err)
		all[name] = w.do(http.MethodPost, prod+"/api-keys", string(body)).issued(http.StatusCreated)
	}
	return all
}

func (w *world) compareList() {
	w.Helper()
	for last := apikey.ID(""); ; {
		var err error
		if last, _, err = w.store.RelistKeys(w.Context(), last, 200, func(apikey.Key, usage.History) {}); err != nil {
			w.Fatal(err)
		}
		if last == "" {
			break
		}
	}
	w.listIsReady()
}

func (w *world) listIsReady() {
	w.Helper()
	check.OK(w, w.store.SetKeyList(w.Context(), store.ListState{Day: "2026-03-14", Changed: time.Now()}))
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, ready := range []bool{false, true} {
		t.Run(fmt.Sprintf("ready=%v", ready), func(t *testing.T) {
			t.Parallel()
			testSearch(t, ready)
		})
	}
}

func testSearch(t *testing.T, ready bool) {
	t.Helper()
	w := newWorld(t)
	if ready {
		w.compareList()
	}
	w.makePlan(prod)
	keys := w.named("Every", "one", "Two apps", "Anybody", "revoked")
	w.see(keys["one"], "2026-03-10")
	w.see(keys["Anybody"], "2026-03-14")
	w.see(keys["Every"], "2026-03-10")
	w.do(http.MethodPost, shop+"/api-keys/"+keys["revoked"].ID+"/revoke", "")
	w.do(http.MethodPatch, shop+"/api-keys/"+keys["Two apps"].ID, `{"status":"disabled","tags":["eu","batch"]}`)
	w.do(http.MethodPatch, shop+"/api-keys/"+keys["Every"].ID, `{"tags":["batch"]}`)
	w.do(http.MethodPatch, shop+"/api-keys/"+keys["one"].ID, `{"expires_at":"2026-03-14T13:00:00Z"}`)
	w.clock.Set(time.Date(2026, 3, 14, 14, 0, 0, 0, time.UTC))
	every := []string{"Anybody", "Every", "Two apps", "one", "revoked"}
	tests := []struct {
		query string
		want  []string // in the order of the list; for sort=id, the test sorts the names
	}{
		{"", every},
		{"search=revo", []string{"revoked"}},
		{"search=EVERY", []string{"Every"}},
		{"search=" + keys["one"].Prefix, []string{"one"}},
		{"search=" + keys["one"].ID, []string{"one"}},
		{"search=nobody", nil},
		{"status=active", []string{"Anybody", "Every"}},
		{"status=expired", []string{"one"}},
		{"status=disabled", []string{"Two apps"}},
		{"status=revoked&search=rev", []string{"revoked"}},
		{"app=hello", every},
		{"app=other&search=every", []string{"Every"}},
		{"search=very", nil},
		{"tag=batch", []string{"Every", "Two apps"}},
		{"tag=batch&status=active", []string{"Every"}},
		{"tag=eu&search=two&app=hello&sort=last_seen", []string{"Two apps"}},
		{"tag=bat", nil},
		{"search=apps", []string{"Two apps"}},
		{"search=two+ap&app=other", []string{"Two apps"}},
		{"status=expired&sort=last_seen&search=on", []string{"one"}},
		{"status=active&app=other&sort=last_seen", []string{"Anybody", "Every"}},
		{"plan=plan-none&sort=last_seen", nil},
		{"sort=last_seen&status=active", []string{"Anybody", "Every"}},
		{"sort=id", every},
		{"sort=name", []string{"Anybody", "Every", "one", "revoked", "Two apps"}},
		{"sort=name&status=active", []string{"Anybody", "Every"}},
		{"sort=name&status=expired", []string{"one"}},
		{"sort=name&app=other&search=ever", []string{"Every"}},
		{"sort=name&plan=plan-starter&status=disabled", []string{"Two apps"}},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			for _, size := range []string{"1", "2", "100"} {
				got := w.everyPage(prod + "/api-keys?page_size=" + size + "&" + tt.query)
				if !strings.Contains(tt.query, "sort=") || strings.Contains(tt.query, "sort=id") {
					slices.Sort(got)
				}
				check.Equal(t, "by "+size, tt.want, got)
			}
		})
	}
	got := w.everyPage(shop + "/api-keys?sort=last_seen&page_size=2")
	if got[0] != "Anybody" || len(got) != 5 || slices.Contains(got[3:], "one") || slices.Contains(got[3:], "Every") {
		t.Errorf("sort=last_seen: got %v", got)
	}
}

func TestKeysAreSortedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.named("b", "B", "a b c", "ä", "A")
	unnamed := w.makeKey()
	w.do(http.MethodPatch, shop+"/api-keys/"+w.named("z")["z"].ID, `{"name":"aa"}`)
	for _, ready := range []bool{false, true} {
		if ready {
			w.listIsReady()
		}
		for _, size := range []string{"1", "3"} {
			got := w.everyPage(prod + "/api-keys?sort=name&page_size=" + size)
			for i := range got {
				if got[i] == "" {
					got[i] = unnamed.Prefix
				}
			}
			lower := make([]string, len(got))
			for i, name := range got {
				lower[i] = strings.ToLower(name)
			}
			if len(got) != 7 || !slices.IsSorted(lower) {
				t.Errorf("ready=%t, by %s: got %q, want 7 sorted names", ready, size, got)
			}
		}
	}
}

func TestTotalOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	keys := w.named("one", "two", "three")
	w.do(http.MethodPost, shop+"/api-keys/"+keys["two"].ID+"/revoke", "")
	total := func(query string) int {
		t.Helper()
		list := read[wire.KeyList](w.do(http.MethodGet, prod+"/api-keys?page_size=1&"+query, ""), http.StatusOK)
		if list.Total == nil {
			return -1
		}
		return *list.Total
	}
	if got := total("sort=name"); got != -1 {
		t.Errorf("before the list of keys is complete: got the total %d, want none", got)
	}
	w.listIsReady()
	next := read[wire.List[wire.Key]](w.do(http.MethodGet, prod+"/api-keys?page_size=1&sort=name", ""), http.StatusOK).NextPageToken
	for query, want := range map[string]int{
		"": 3, "sort=name": 3, "sort=last_seen": 3, "status=revoked": 1, "status=disabled": 0, "plan=plan-starter": 3, "plan=plan-none": 0,
		"search=one": -1, "app=hello": -1, "tag=batch": -1, "unused_for=24h": -1, "status=active": -1, "status=expired": -1, "sort=name&page_token=" + next: -1,
	} {
		if got := total(query); got != want {
			t.Errorf("%q: got the total %d, want %d", query, got, want)
		}
	}
}

func (w *world) everyPage(path string) (names []string) {
	w.Helper()
	for token := ""; ; {
		list := read[wire.List[wire.Key]](w.do(http.MethodGet, path+token, ""), http.StatusOK)
		for _, k := range list.Items {
			names = append(names, k.Name)
		}
		if list.NextPageToken == "" {
			return names
		}
		token = "&page_token=" + list.NextPageToken
	}
}

func TestSearchRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, code := range map[string]problem.Code{
		"status=gone": problem.InvalidParameter, "app=A.b": problem.InvalidParameter, "sort=plan": problem.InvalidParameter, "tag=Batch": problem.InvalidParameter,
		"unused_for=23h59m": problem.InvalidParameter, "unused_for=2208h1s": problem.InvalidParameter, "unused_for=90d": problem.InvalidParameter, "unused_for=-48h": problem.InvalidParameter,
		"search=" + strings.Repeat("x", 201): problem.InvalidParameter,
		"status=active&page_token=%3F":       problem.InvalidPage, "status=active&page_token=a2V5LWFi": problem.InvalidPage,
	} {
		w.do(http.MethodGet, prod+"/api-keys?"+query, "").Refused(http.StatusBadRequest, code)
	}
	w.do(http.MethodGet, prod+"/api-keys?search="+strings.Repeat("%C3%A4", maxSearch), "").Is(http.StatusOK)
}

func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	first := w.makeKey()
	find := func(full string) answer {
		return w.as("vera", http.MethodPost, shop+"/api-keys/find", `{"key":"`+full+`"}`)
	}
	is := func(full, secret string) {
		t.Helper()
		got := read[wire.FoundKey](find(full), http.StatusOK)
		if got.Key.ID != first.ID || got.Secret != secret {
			t.Errorf("got %s, secret %s, want %s", got.Key.ID, got.Secret, secret)
		}
	}
	is(first.FullKey, "current")
	second := w.do(http.MethodPost, shop+"/api-keys/"+first.ID+"/rotate", "").issued(http.StatusOK)
	is(first.FullKey, "previous")
	is(second.FullKey, "current")
	w.clock.Advance(25 * time.Hour)
	is(first.FullKey, "unknown") // the grace period is over

	w.as("bob", http.MethodPost, bank+"/api-keys/find", `{"key":"`+second.FullKey+`"}`).Refused(http.StatusNotFound, problem.NotFound)
	w.as("bob", http.MethodPost, shop+"/api-keys/find", `{"key":"`+second.FullKey+`"}`).Refused(http.StatusForbidden, problem.Forbidden)
	find(second.FullKey[:53]).Refused(http.StatusBadRequest, problem.InvalidParameter)
	find("sluice_"+first.Prefix+"_"+strings.Repeat("0", 38)).Refused(http.StatusBadRequest, problem.InvalidParameter)
	w.do(http.MethodPost, shop+"/api-keys/find", `{}`).Refused(http.StatusUnprocessableEntity, problem.MissingField)
	if strings.Contains(w.log.String(), second.FullKey[16:]) {
		t.Error("got the key in the log")
	}
}

func TestUsageOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPost, prod+"/plans", `{"name":"Starter","rate":1,"burst":1,"quota":10,"quota_period":"week"}`)
	k := w.makeKey()
	w.see(k, "2026-03-01")
	w.see(k, "2026-03-14")
	got := w.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key().Usage
	if got == nil || len(got.Week) != 7 || got.Week[6].QuotaDenied != 1 || got.Week[6].Date != "2026-03-14" || got.Week[5].QuotaDenied != 0 {
		t.Fatalf("usage: got %+v", got)
	}
	want := &wire.QuotaUse{Quota: 10, Period: "week", ResetsAt: time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)}
	check.Equal(t, "quota", want, got.Quota)
}

// scanned is a store with 100,000 keys. Reads wait for the gate.
type scanned struct {
	Store

	gate, entered       chan struct{}
	running, over, read atomic.Int64 // reads in progress, reads over the limit, keys read
}

func (s *scanned) KeysOf(_ context.Context, prefixes []apikey.Prefix) (keys []apikey.Key, err error) {
	for _, p := range prefixes {
		keys = append(keys, apikey.Key{Prefix: p, Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter", Name: "many", Status: apikey.Active})
	}
	return keys, nil
}

func (s *scanned) EachListed(context.Context, store.KeyFilter, apikey.ID) iter.Seq2[apikey.Key, error] {
	return func(yield func(apikey.Key, error) bool) {
		if n := s.running.Add(1); n > scansAtOnce {
			s.over.Store(n)
		}
		defer s.running.Add(-1)
		s.entered <- struct{}{}
		<-s.gate
		for i := range 100_000 {
			s.read.Add(1)
			if !yield(apikey.Key{Prefix: apikey.Prefix(fmt.Sprintf("%08d", i)), Name: "many", Status: apikey.Active}, nil) {
				return
			}
		}
	}
}

func TestSearchesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	const calls = 5 * scansAtOnce
	s := &scanned{Store: w.store, gate: make(chan struct{}), entered: make(chan struct{}, calls)}
	w.service.store = s
	var g errgroup.Group
	for range calls {
		g.Go(func() error {
			list := read[wire.List[wire.Key]](w.do(http.MethodGet, prod+"/api-keys?search=many&page_size=50", ""), http.StatusOK)
			if len(list.Items) != 50 || list.NextPageToken == "" {
				t.Errorf("got %d keys and the token %q", len(list.Items), list.NextPageToken)
			}
			return nil
		})
	}
	for range scansAtOnce {
		<-s.entered
	}
	close(s.gate)
	if err := g.Wait(); err != nil || s.over.Load() > 0 {
		t.Errorf("searches over the limit: got %d, error %v, limit %d", s.over.Load(), err, scansAtOnce)
	}
	if s.read.Load() != calls*51 {
		t.Errorf("got %d keys read, want 51 for each page", s.read.Load())
	}
}

type reads struct {
	Store

	n atomic.Int64
}

func (r *reads) FindKeys(ctx context.Context, q store.KeySearch, after store.KeyPlace, limit int) ([]store.Candidate, error) {
	found, err := r.Store.FindKeys(ctx, q, after, limit)
	r.n.Add(int64(len(found)))
	return found, err
}

func (r *reads) CountListed(ctx context.Context, f store.KeyFilter) (int, bool, error) {
	n, ok, err := r.Store.CountListed(ctx, f)
	r.n.Add(int64(n/1000 + 1))
	return n, ok, err
}

func (r *reads) KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) {
	r.n.Add(int64(len(prefixes)))
	return r.Store.KeysOf(ctx, prefixes)
}

func (r *reads) PlansOf(ctx context.Context, keys []apikey.Key) ([]plan.Plan, error) {
	plans := map[plan.ID]bool{}
	for _, k := range keys {
		plans[k.Plan] = true
	}
	r.n.Add(int64(len(plans)))
	return r.Store.PlansOf(ctx, keys)
}

func (r *reads) Rollups(ctx context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	r.n.Add(int64(len(prefixes)))
	return r.Store.Rollups(ctx, prefixes)
}

func (r *reads) EachListed(ctx context.Context, f store.KeyFilter, after apikey.ID) iter.Seq2[apikey.Key, error] {
	return func(yield func(apikey.Key, error) bool) {
		for k, err := range r.Store.EachListed(ctx, f, after) {
			r.n.Add(1)
			if !yield(k, err) {
				return
			}
		}
	}
}

// others is the number of reads that the methods above do not count: of the project, the
// environment, the progress of rollup and the marks of the counters.
const others = 5

func TestListIsCheap(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	w := newWorldIn(t, project)
	w.makePlan(prod)
	k := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","name":"Checkout team","apps":["hello"],"tags":["batch"]}`).issued(http.StatusCreated)
	storetest.CopyKey(t, project, apikey.ID(k.ID), 1000)
	storetest.CopyEntry(t, project, apikey.ID(k.ID), 1000)
	w.listIsReady()
	w.clock.Advance(48 * time.Hour)
	counting := &reads{Store: w.store}
	w.service.store, w.service.counted = counting, usagequery.NewReader(counting, nil, usagequery.Recent{})
	for _, query := range []string{
		"tag=batch", "unused_for=24h", "unused_for=24h&tag=batch&status=active&app=hello", "tag=other", "tag=batch&sort=name", "unused_for=24h&sort=name",
		"search=team", "status=active", "app=hello", "sort=last_seen", "sort=name", "", "status=active&app=hello&sort=last_seen&search=check&plan=plan-starter",
		"status=expired", "search=nobody", "status=expired&sort=last_seen", "search=team&app=other",
	} {
		counting.n.Store(0)
		list := read[wire.List[wire.Key]](w.do(http.MethodGet, prod+"/api-keys?page_size=50&"+query, ""), http.StatusOK)
		matching := !strings.Contains(query, "expired") && !strings.Contains(query, "nobody") && !strings.Contains(query, "other")
		if matching && (len(list.Items) != 50 || list.NextPageToken == "") {
			t.Errorf("%s: got %d keys and the token %q, want a full page and a token", query, len(list.Items), list.NextPageToken)
		}
		if got := counting.n.Load() + others; got > 200 {
			t.Errorf("%s: got %d document reads, want at most 200", query, got)
		}
	}
}

// huge is a store with 100,000 keys, of which a search selects each third.
type huge struct{ Store }

func (huge) KeyListReady(context.Context) (bool, error) { return true, nil }

func (huge) FindKeys(_ context.Context, _ store.KeySearch, after store.KeyPlace, limit int) (found []store.Candidate, err error) {
	next := 0
	if prefix, ok := after.ID.Prefix(); ok {
		last, err := strconv.Atoi(string(prefix))
		if err != nil {
			return nil, err
		}
		next = last + 1
	}
	for i := next; i < min(next+limit, 100_000); i++ {
		prefix := apikey.Prefix(fmt.Sprintf("%08d", i))
		found = append(found, store.Candidate{Prefix: prefix, Place: store.KeyPlace{ID: apikey.IDOf(prefix)}, Selected: i%3 == 0})
	}
	return found, nil
}

func (huge) KeysOf(ctx context.Context, prefixes []apikey.Prefix) ([]apikey.Key, error) {
	return (*scanned)(nil).KeysOf(ctx, prefixes)
}

func (huge) Rollups(_ context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	histories := make([]usage.History, len(prefixes))
	for i := range histories {
		for day := range usage.Day(usage.RetentionDays) {
			histories[i] = append(histories[i], usage.Dated{Day: 20_000 + day, Totals: usage.Totals{Allowed: 1}})
		}
	}
	return histories, nil
}

func TestListOfManyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	counting := &reads{Store: huge{w.store}}
	w.service.store, w.service.counted = counting, usagequery.NewReader(counting, nil, usagequery.Recent{Seconds: 60})
	page := func(token string) wire.List[wire.Key] {
		return read[wire.List[wire.Key]](w.do(http.MethodGet, prod+"/api-keys?page_size=50&search=many"+token, ""), http.StatusOK)
	}
	listed, token := 0, ""
	for range 10 {
		counting.n.Store(0)
		list := page(token)
		if got := counting.n.Load() + others; got > 200 || len(list.Items) == 0 {
			t.Errorf("got %d document reads for %d keys, want at most 200", got, len(list.Items))
		}
		for _, k := range list.Items {
			if want := fmt.Sprintf("%08d", 3*listed); k.Prefix != want {
				t.Fatalf("got %s, want %s", k.Prefix, want)
			}
			listed++
		}
		token = "&page_token=" + list.NextPageToken
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	var lists errgroup.Group
	for range 20 {
		lists.Go(func() error {
			if n := len(page("").Items); n == 0 {
				t.Error("got no keys")
			}
			return nil
		})
	}
	for range 5 {
		most = max(most, heap())
	}
	if err := lists.Wait(); err != nil || most > before+128<<20 {
		t.Errorf("heap of 20 lists: got %d MiB, error %v, want at most 128", (most-before)>>20, err)
	}
}

func TestListOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	w := newWorldIn(t, project)
	w.makePlan(prod)
	keys := w.named("one", "other")
	w.compareList()
	storetest.Change(t, project, "keys/"+keys["one"].ID, map[string]any{"status": "disabled", "updated_at": time.Now()})
	storetest.Change(t, project, "keys/"+keys["other"].ID, nil)
	if got := w.everyPage(prod + "/api-keys?status=active"); len(got) > 0 {
		t.Errorf("active keys: got %v, want none", got)
	}
	since := time.Now().Add(-time.Hour)
	if _, compared, corrected, err := w.store.RelistChanged(t.Context(), since, 200); err != nil || compared != 1 || corrected != 1 {
		t.Errorf("got %d of %d keys corrected, error %v, want 1 of 1", corrected, compared, err)
	}
	if got := w.everyPage(prod + "/api-keys?status=disabled"); !slices.Equal(got, []string{"one"}) {
		t.Errorf("disabled keys after the correction: got %v", got)
	}
	if _, corrected, err := w.store.RelistKeys(t.Context(), "", 200, func(apikey.Key, usage.History) {}); err != nil || corrected != 1 {
		t.Errorf("got %d entries corrected, error %v, want that of the deleted key", corrected, err)
	}
	if _, corrected, err := w.store.RelistKeys(t.Context(), "", 200, func(apikey.Key, usage.History) {}); err != nil || corrected != 0 {
		t.Errorf("second comparison: got %d entries corrected, error %v", corrected, err)
	}
}

func TestUnusedKeys(t *testing.T) {
	t.Parallel()
	for _, ready := range []bool{false, true} {
		t.Run(fmt.Sprintf("ready=%v", ready), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if ready {
				w.compareList()
			}
			w.makePlan(prod)
			keys := w.named("never", "idle", "edge", "busy")
			w.clock.Set(time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC))
			w.named("new")
			w.clock.Set(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))
			w.see(keys["idle"], "2026-03-20")
			w.see(keys["edge"], "2026-05-02")
			w.see(keys["busy"], "2026-06-01")
			w.do(http.MethodPatch, shop+"/api-keys/"+keys["idle"].ID, `{"tags":["batch"]}`)
			for query, want := range map[string][]string{
				"unused_for=720h":           {"idle", "never"}, // edge was used on the first day
				"unused_for=696h":           {"edge", "idle", "never"},
				"unused_for=288h":           {"edge", "idle", "never"}, // new was created at that time
				"unused_for=287h":           {"edge", "idle", "never", "new"},
				"unused_for=2208h":          nil,
				"unused_for=720h&tag=batch": {"idle"},
				"unused_for=696h&sort=name": {"edge", "idle", "never"}, // by last use
			} {
				for _, size := range []string{"1", "2", "100"} {
					got := w.everyPage(prod + "/api-keys?page_size=" + size + "&" + query)
					last := len(got) // keys without requests are last, in the order of IDs
					for last > 0 && (got[last-1] == "never" || got[last-1] == "new") {
						last--
					}
					slices.Sort(got[last:])
					check.Equal(t, query+" by "+size, want, got)
				}
			}
		})
	}
}

// TestUsedKeyIsNotUnused verifies that requests count before rollup has added them to the list, and
// before a checker has stored them.
func TestUsedKeyIsNotUnused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.compareList()
	w.makePlan(prod)
	keys := w.named("returned", "returning", "gone")
	k := keys["returned"]
	w.clock.Advance(72 * time.Hour)
	stored := usage.Counter{Day: usage.DayOf(w.clock.Now()), Source: "run-1", Counts: usage.Packed(nil).Pack(apikey.Prefix(k.Prefix), usage.Totals{Allowed: 1})}
	_, err := w.store.WriteCounter(t.Context(), stored, store.CounterVersion{})
	check.OK(t, err)
	unused := func() []string { return slices.Sorted(slices.Values(w.everyPage(prod + "/api-keys?unused_for=48h"))) }
	check.Equal(t, "unused keys by the store", []string{"gone", "returning"}, unused())
	prefixes := slices.Sorted(slices.Values([]string{k.Prefix, keys["returning"].Prefix, keys["gone"].Prefix}))
	w.serveUsage(w.join(atOnce)[0], w.clock.Now(), prefixes,
		usage.Held{Prefix: keys["returning"].Prefix, Source: "run-2", Day: usage.DayOf(w.clock.Now()).String(), Allowed: 1})
	check.Equal(t, "unused keys", []string{"gone"}, unused())
}
