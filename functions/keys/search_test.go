package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// named issues keys with names; the n-th has n apps, of which there are two.
func (w *world) named(names ...string) map[string]wire.IssuedKey {
	w.Helper()
	all := map[string]wire.IssuedKey{}
	for i, name := range names {
		body, err := json.Marshal(wire.CreateKey{Plan: new("plan-starter"), Name: name, Apps: []string{"hello", "other"}[:i%3]})
		if err != nil {
			w.Fatal(err)
		}
		all[name] = w.do(http.MethodPost, prod+"/api-keys", string(body)).issued(http.StatusCreated)
	}
	return all
}

// TestSearch: which keys a filter leaves, by their names, and in what order; a page at a
// time and all at once.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	keys := w.named("Every", "one", "Two apps", "Anybody", "revoked")
	w.see(keys["one"], "2026-03-10")
	w.see(keys["Anybody"], "2026-03-14")
	w.see(keys["Every"], "2026-03-10")
	w.do(http.MethodPost, shop+"/api-keys/"+keys["revoked"].ID+"/revoke", "")
	w.do(http.MethodPatch, shop+"/api-keys/"+keys["Two apps"].ID, `{"status":"disabled"}`)
	w.do(http.MethodPatch, shop+"/api-keys/"+keys["one"].ID, `{"expires_at":"2026-03-14T13:00:00Z"}`)
	w.setClock(time.Date(2026, 3, 14, 14, 0, 0, 0, time.UTC))
	every := []string{"Anybody", "Every", "Two apps", "one", "revoked"}
	tests := []struct {
		query string
		want  []string // in order with sort=last_seen, in that of names without
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
		{"app=other&search=very", []string{"Every"}},
		{"plan=plan-none&sort=last_seen", nil},
		{"sort=last_seen&status=active", []string{"Anybody", "Every"}},
		{"sort=id", every},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			for _, size := range []string{"1", "2", "100"} {
				got := w.everyPage(prod + "/api-keys?page_size=" + size + "&" + tt.query)
				if !strings.Contains(tt.query, "last_seen") {
					slices.Sort(got)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("by %s (-want +got):\n%s", size, diff)
				}
			}
		})
	}
	got := w.everyPage(shop + "/api-keys?sort=last_seen&page_size=2")
	if got[0] != "Anybody" || len(got) != 5 || slices.Contains(got[3:], "one") || slices.Contains(got[3:], "Every") {
		t.Errorf("by the day they were seen: %v", got)
	}
}

// everyPage lists the names of keys, page by page.
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
		"status=gone": problem.InvalidParameter, "app=A.b": problem.InvalidParameter, "sort=name": problem.InvalidParameter, "search=" + strings.Repeat("x", 201): problem.InvalidParameter,
		"status=active&page_token=%3F": problem.InvalidPage, "status=active&page_token=a2V5LWFi": problem.InvalidPage,
	} {
		w.do(http.MethodGet, prod+"/api-keys?"+query, "").refused(http.StatusBadRequest, code)
	}
}

// TestFind: a full key leads to its key in its project, and to nothing anywhere else.
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
			t.Errorf("found %s, secret %s, want %s", got.Key.ID, got.Secret, secret)
		}
	}
	is(first.FullKey, "current")
	second := w.do(http.MethodPost, shop+"/api-keys/"+first.ID+"/rotate", "").issued(http.StatusOK)
	is(first.FullKey, "previous")
	is(second.FullKey, "current")
	w.setClock(w.clock.Load().Add(25 * time.Hour))
	is(first.FullKey, "unknown") // its grace is over

	w.as("bob", http.MethodPost, bank+"/api-keys/find", `{"key":"`+second.FullKey+`"}`).refused(http.StatusNotFound, problem.NotFound)
	w.as("bob", http.MethodPost, shop+"/api-keys/find", `{"key":"`+second.FullKey+`"}`).refused(http.StatusForbidden, problem.Forbidden)
	find(second.FullKey[:53]).refused(http.StatusBadRequest, problem.InvalidParameter)
	find("sluice_"+first.Prefix+"_"+strings.Repeat("0", 38)).refused(http.StatusBadRequest, problem.InvalidParameter)
	w.do(http.MethodPost, shop+"/api-keys/find", `{}`).refused(http.StatusUnprocessableEntity, problem.MissingField)
	if strings.Contains(w.log.String(), second.FullKey[16:]) {
		t.Error("the key is in the log")
	}
}

// TestUsageOfKeys: a list says what was counted lately, and how much of the quota that is.
func TestUsageOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPost, prod+"/plans", `{"name":"Starter","rate":1,"burst":1,"quota":10,"quota_period":"week"}`)
	k := w.makeKey()
	w.see(k, "2026-03-01")
	w.see(k, "2026-03-14")
	got := w.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key().Usage
	if got == nil || len(got.Week) != 7 || got.Week[6].QuotaDenied != 1 || got.Week[6].Date != "2026-03-14" || got.Week[5].QuotaDenied != 0 {
		t.Fatalf("usage is %+v", got)
	}
	want := &wire.QuotaUse{Quota: 10, Period: "week", ResetsAt: time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(want, got.Quota); diff != "" {
		t.Errorf("quota (-want +got):\n%s", diff)
	}
}

// scanned is a store with 100,000 keys, which are read once the gate is open.
type scanned struct {
	Store

	gate, entered       chan struct{}
	running, over, read atomic.Int64 // readings in progress, too many of them, keys read
}

func (s *scanned) KeysOf(_ context.Context, prefixes []apikey.Prefix) (keys []apikey.Key, err error) {
	for _, p := range prefixes {
		keys = append(keys, apikey.Key{Prefix: p, Project: "shop", Namespace: "shop-prod", Plan: "plan-starter", Name: "many", Status: apikey.Active})
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

// Calls that search many keys take turns, and read no key after their page is full.
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
		t.Errorf("%d searches at the same time, %v, want at most %d", s.over.Load(), err, scansAtOnce)
	}
	if s.read.Load() != calls*51 {
		t.Errorf("read %d keys, want 51 for each page", s.read.Load())
	}
}
