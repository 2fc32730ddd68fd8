package usage

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/storetest"
)

const exportPath = "/api/v1/projects/shop/environments/prod/usage.csv"

func (h *harness) rows(query string) [][]string {
	h.t.Helper()
	a := h.get(exportPath + query).Is(http.StatusOK)
	if got := a.Header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		h.t.Errorf("Content-Type: got %s", got)
	}
	rows, err := csv.NewReader(bytes.NewReader(a.Body)).ReadAll()
	check.OK(h.t, err)
	return rows
}

func TestExport(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	h.issue("bbbbbbbb", func(k *apikey.Key) {
		k.Name, k.Tags, k.Status = `=SUM("A1",2)`, []string{"-x", "batch"}, apikey.Revoked
	})
	h.rollUp("2024-02-28", usage.Totals{Allowed: 7})
	h.flush("2024-03-01", "a-1", usage.Totals{Allowed: 1, RateDenied: 2, QuotaDenied: 3})
	h.flush("2024-03-01", "b-1", usage.Totals{Allowed: 10})
	storetest.Damage(t, h.project, "counters/2024-03-02.run-2.0", map[string]any{"day": "2024-03-02"})
	const head = "key_id,name,plan,tags,from,to,allowed,rate_denied,quota_denied,incomplete\r\n"
	for query, want := range map[string]string{
		"?from=2024-02-28&to=2024-03-01": head +
			"key-aaaaaaaa,,plan-a,,2024-02-28,2024-03-01,18,2,3,false\r\n" +
			`key-bbbbbbbb,"'=SUM(""A1"",2)",plan-a,'-x batch,2024-02-28,2024-03-01,0,0,0,false` + "\r\n",
		"?from=2024-02-28&per=day": head +
			"key-aaaaaaaa,,plan-a,,2024-02-28,2024-02-28,7,0,0,false\r\n" +
			"key-aaaaaaaa,,plan-a,,2024-03-01,2024-03-01,11,2,3,false\r\n" +
			"key-aaaaaaaa,,plan-a,,2024-03-02,2024-03-02,0,0,0,true\r\n" +
			`key-bbbbbbbb,"'=SUM(""A1"",2)",plan-a,'-x batch,2024-03-02,2024-03-02,0,0,0,true` + "\r\n",
		"?from=2024-02-27&to=2024-03-01&per=day": head +
			"key-aaaaaaaa,,plan-a,,2024-02-28,2024-02-28,7,0,0,false\r\n" +
			"key-aaaaaaaa,,plan-a,,2024-03-01,2024-03-01,11,2,3,false\r\n",
		"?from=2024-03-02&per=window": head +
			"key-aaaaaaaa,,plan-a,,2024-03-02,2024-03-02,0,0,0,true\r\n" +
			`key-bbbbbbbb,"'=SUM(""A1"",2)",plan-a,'-x batch,2024-03-02,2024-03-02,0,0,0,true` + "\r\n",
	} {
		check.Equal(t, query, want, h.get(exportPath+query).Is(http.StatusOK).Text())
	}
	check.Equal(t, "default window", []string{"2023-12-04", "2024-03-02"}, h.rows("")[1][4:6])
	empty := h.get("/api/v1/projects/other/environments/prod/usage.csv").Is(http.StatusOK)
	check.Equal(t, "empty environment", head, empty.Text())
}

func TestColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, column := range columns() {
		if !strings.Contains(api.ExportUsage.Details, column) {
			t.Errorf("details of the route: got %q, want the column %s", api.ExportUsage.Details, column)
		}
	}
}

func TestCellsAreHarmless(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "a=1": "a=1", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "'=1": "'=1", "é=1": "é=1",
	} {
		if got := harmless(cell); got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
}

func TestExportRefused(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	for query, want := range map[string]struct {
		status int
		code   problem.Code
	}{
		"?from=x":                          {400, problem.InvalidDate},
		"?per=week":                        {400, problem.InvalidParameter},
		"?group=consumer":                  {400, problem.UnknownParameter},
		"?from=2024-03-02&to=2024-03-01":   {422, problem.InvalidWindow},
		"?from=2023-11-01&to=2023-12-01":   {422, problem.WindowExpired},
		"?from=2024-03-01&from=2024-03-02": {400, problem.InvalidParameter},
	} {
		h.get(exportPath+query).Refused(want.status, want.code)
	}
	h.as("bob", exportPath).Refused(http.StatusForbidden, problem.Forbidden)
	h.as("", exportPath).Refused(http.StatusUnauthorized, problem.Unauthenticated)
}

// halting has 1,000 keys in each environment. It reads rollups after each receive from answers, or
// fails with the error.
type halting struct {
	Store

	asked   chan struct{}
	answers chan error
}

func (h *harness) halt() halting {
	s := halting{Store: h.store, asked: make(chan struct{}, 2), answers: make(chan error, 2)}
	h.service.store, h.service.counted = s, usagequery.NewReader(s, nil, usagequery.Recent{})
	return s
}

func (halting) EachListed(context.Context, store.KeyFilter, apikey.ID) iter.Seq2[apikey.Key, error] {
	return func(yield func(apikey.Key, error) bool) {
		for i := range 2 * exportPage {
			if !yield(apikey.Key{Prefix: apikey.Prefix(fmt.Sprintf("%08d", i)), Plan: "plan-a", Name: strings.Repeat("n", 100)}, nil) {
				return
			}
		}
	}
}

func (s halting) Rollups(_ context.Context, prefixes []apikey.Prefix) ([]usage.History, error) {
	s.asked <- struct{}{}
	return make([]usage.History, len(prefixes)), <-s.answers
}

func TestOneExportAtATime(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	slow := h.halt()
	first := make(chan functest.Answer)
	go func() { first <- h.get(exportPath) }()
	<-slow.asked
	const otherPath = "/api/v1/projects/other/environments/prod/usage.csv"
	for _, second := range []functest.Answer{h.as("ada", exportPath), h.get(otherPath)} { // the same project, the same caller
		second.Refused(http.StatusTooManyRequests, problem.RateLimited)
		if got := second.Header.Get("Retry-After"); got != "10" {
			t.Errorf("Retry-After: got %q, want 10", got)
		}
	}
	other := make(chan functest.Answer)
	go func() { other <- h.as("ada", otherPath) }()
	<-slow.asked // another caller exports another project at the same time
	for range 2 {
		slow.answers <- problem.FromCode(problem.Unavailable)
	}
	(<-first).Refused(http.StatusServiceUnavailable, problem.Unavailable) // before the first part
	(<-other).Refused(http.StatusServiceUnavailable, problem.Unavailable)
	slow.answers <- nil
	slow.answers <- nil
	h.get(exportPath).Is(http.StatusOK)
}

func TestFailedExportIsNotComplete(t *testing.T) {
	t.Parallel()
	h := start(t, 0)
	slow := h.halt()
	recovering := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }() // like the functions framework
		h.service.Handler().ServeHTTP(w, r)
	})
	for protocol, handler := range map[string]http.Handler{"http/1.1": h.service.Handler(), "http/1.1 in the framework": recovering, "h2": h.service.Handler()} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = protocol == "h2"
		server.StartTLS()
		t.Cleanup(server.Close)
		slow.answers <- nil
		slow.answers <- errors.New("broken store")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+exportPath, http.NoBody)
		check.OK(t, err)
		r.Header = http.Header{functest.UserHeader: {"vera"}}
		res, err := server.Client().Do(r)
		check.OK(t, err)
		body, err := io.ReadAll(res.Body)
		check.OK(t, res.Body.Close())
		if res.StatusCode != http.StatusOK || len(body) == 0 || err == nil {
			t.Errorf("%s: got %d, %d bytes, error %v; want a broken response", protocol, res.StatusCode, len(body), err)
		}
		for range 2 {
			<-slow.asked
		}
	}
}

func (h *harness) sums(query string) map[string]wire.UsageTotals {
	h.t.Helper()
	sums := map[string]wire.UsageTotals{}
	for _, row := range h.rows(query)[1:] {
		number := func(cell string) uint64 {
			n, err := strconv.ParseUint(cell, 10, 64)
			check.OK(h.t, err)
			return n
		}
		sum := sums[row[0]]
		sum.Allowed += number(row[6])
		sum.RateDenied += number(row[7])
		sum.QuotaDenied += number(row[8])
		sums[row[0]] = sum
	}
	return sums
}

func TestExportEqualsUsage(t *testing.T) {
	t.Parallel()
	h := start(t, 60)
	var all []apikey.Prefix
	for i := range 20 {
		p := apikey.Prefix(fmt.Sprintf("%08d", i))
		h.issue(p, func(k *apikey.Key) { k.Secret = apikey.HashOf([]byte(p)) })
		all = append(all, p)
	}
	today := usage.DayOf(h.now)
	n := uint64(0)
	check.OK(t, h.store.UpdateRollups(t.Context(), all, func(_ apikey.Prefix, old usage.History) usage.History {
		for day := usage.EarliestKept(today); day < today; day += 3 {
			n++
			old = old.Merge(day, usage.Totals{Allowed: n * 7 % 100, RateDenied: n % 5, QuotaDenied: n % 3})
		}
		return old
	}))
	counts := usage.Packed(nil)
	for i, p := range all {
		counts = counts.Pack(p, usage.Totals{Allowed: uint64(i), QuotaDenied: 1})
	}
	_, err := h.store.WriteCounter(t.Context(), usage.Counter{Day: today, Source: "run-1", Counts: counts}, store.CounterVersion{})
	check.OK(t, err)
	for _, window := range []string{"", "?from=2024-02-03&to=2024-03-01", "?from=2024-03-02", "?to=2023-12-20"} {
		per := "?per=day"
		if window != "" {
			per = window + "&per=day"
		}
		sums, days := h.sums(window), h.sums(per)
		for _, p := range all {
			id := string(apikey.IDOf(p))
			want := functest.Read[wire.Usage](h.get("/api/v1/projects/shop/api-keys/"+id+"/usage"+window), http.StatusOK).Totals
			if sums[id] != want || days[id] != want {
				t.Errorf("%s of %s: got %+v by window and %+v by day, want %+v", window, id, sums[id], days[id], want)
			}
		}
	}
}

// counting discards a body, and counts its lines and the largest heap.
type counting struct {
	http.ResponseWriter

	lines, heap atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(b, []byte("\n"))))
	c.heap.Store(max(c.heap.Load(), heap()))
	return len(b), nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestExportOf10000Keys is not parallel because it measures memory.
func TestExportOf10000Keys(t *testing.T) {
	h := start(t, 60)
	const keys, days = 10_000, 31
	storetest.CopyKey(t, h.project, apikey.IDOf(key), keys)
	today := usage.DayOf(h.now)
	check.OK(t, h.store.UpdateRollups(t.Context(), []apikey.Prefix{key}, func(_ apikey.Prefix, old usage.History) usage.History {
		for day := today - days + 1; day <= today; day++ {
			old = old.Merge(day, usage.Totals{Allowed: 1_000_000, RateDenied: 1000, QuotaDenied: 10})
		}
		return old
	}))
	storetest.CopyRollup(t, h.project, apikey.IDOf(key), keys)
	for day := today - 1; day <= today; day++ { // as large as those of the rollups
		counts := usage.Packed(nil)
		for i := range keys {
			counts = counts.Pack(apikey.Prefix(fmt.Sprintf("c%07d", i)), usage.Totals{Allowed: 1_000_000, RateDenied: 1000, QuotaDenied: 10})
		}
		_, err := h.store.WriteCounter(t.Context(), usage.Counter{Day: day, Source: "run-1", Counts: counts}, store.CounterVersion{})
		check.OK(t, err)
	}
	collectGarbageOften(t)
	h.service.counted = usagequery.NewReader(h.store, nil, usagequery.Recent{Seconds: 60})
	var took time.Duration
	limit := long.Pick(time.Minute, 10*time.Second) // "make test" runs other tests at the same time
	for try := 0; try == 0 || try < 3 && took > limit; try++ {
		h.store.keys.Store(0)
		r := httptest.NewRequest(http.MethodGet, exportPath+"?per=day&from="+(today-days+1).String(), http.NoBody)
		r.Header = http.Header{functest.UserHeader: {"vera"}}
		w := &counting{ResponseWriter: httptest.NewRecorder()}
		runtime.GC()
		before, begun := heap(), time.Now()
		h.service.Handler().ServeHTTP(w, r)
		took = time.Since(begun)
		most := w.heap.Load() - before
		t.Logf("took %s, %d lines, %d KiB", took, w.lines.Load(), most>>10)
		if w.lines.Load() != 1+(keys+1)*days || most > 64<<20 {
			t.Errorf("got %d lines with %d MiB, want %d with at most 64 MiB", w.lines.Load(), most>>20, 1+(keys+1)*days)
		}
	}
	if took > limit {
		t.Errorf("took %s, want at most %s", took, limit)
	}
	if got := h.store.keys.Load(); got > 2*(keys+1) {
		t.Errorf("got %d document reads, want two for each key", got)
	}
}
