package checker

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func (r *replica) explained(t *testing.T, method string, body io.Reader, signatures ...string) (status int, a checkers.Response) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, checkers.QueryPath, body)
	for _, s := range signatures {
		req.Header.Add(checkers.SignatureHeader, s)
	}
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	if rec.Code == http.StatusOK {
		check.OK(t, json.Unmarshal(rec.Body.Bytes(), &a))
	} else if rec.Body.Len() > 0 {
		t.Errorf("body of a %d: got %s, want none", rec.Code, rec.Body)
	}
	return rec.Code, a
}

// denialsFor sends a query with the key from the replica's canary.
func (r *replica) denialsFor(t *testing.T, id string, namespaces ...string) []checkers.Denial {
	t.Helper()
	body, signature, err := r.queryKey.SignQuery(checkers.Query{RequestID: id, Namespaces: namespaces, At: time.Now()})
	check.OK(t, err)
	status, a := r.explained(t, http.MethodPost, strings.NewReader(string(body)), signature)
	if status != http.StatusOK || a.Replica != "checker-0" || a.Run != r.process || a.Denials == nil {
		t.Fatalf("denials: got status %d, %+v, want 200 from this replica", status, a)
	}
	return a.Denials
}

func TestExplain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		expired := issue(t, f, func(k *apikey.Key) { k.ExpiresAt = time.Now() })
		r := newReplica(t, f)
		synctest.Wait()
		r.sendCheck("shop-prod/hello", "X-Api-Key", expired, "X-Request-Id", "mine")
		time.Sleep(time.Second)
		r.sendCheck("bank-prod/hello", "X-Request-Id", "mine")
		r.sendCheck("shop-prod/no.address", "X-Request-Id", "mine")
		at := time.Now().UTC()
		want := []checkers.Denial{{
			At: at.Add(-time.Second), Code: "invalid_key", Reason: "expired", Namespace: "shop-prod", App: "hello", KeyPrefix: expired[7:15], Method: "GET",
		}}
		check.Equal(t, "denials of shop-prod", want, r.denialsFor(t, "mine", "shop-prod", "shop-test"))
		if got := r.denialsFor(t, "mine", "bank-prod"); len(got) != 1 || got[0].Reason != "missing" || got[0].KeyPrefix != "" {
			t.Errorf("denials of bank-prod: got %+v, want one with reason missing", got)
		}
		for _, unseen := range [][]string{{"shop-prod", "other"}, {"", "mine"}, {"shop", "mine"}} {
			if got := r.denialsFor(t, unseen[1], unseen[0]); len(got) != 0 {
				t.Errorf("denials for %v: got %+v, want none", unseen, got)
			}
		}
		for range 2 * checkers.MaxDenials {
			r.sendCheck("shop-prod/hello", "X-Request-Id", "same")
		}
		if got := r.denialsFor(t, "same", "shop-prod"); len(got) != checkers.MaxDenials {
			t.Errorf("denials: got %d, want %d", len(got), checkers.MaxDenials)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if c := f.canaries[store.CanaryKeys]; c.Key != r.queryKey || c.Key == (checkers.QueryKey{}) {
			t.Error("the canary does not contain the query key")
		}
	})
}

func TestInvalidQueries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		synctest.Wait()
		r.sendCheck("shop-prod/hello", "X-Request-Id", "mine")
		signature := func(k checkers.QueryKey, at time.Time) (string, string) {
			body, s, err := k.SignQuery(checkers.Query{RequestID: "mine", Namespaces: []string{"shop-prod"}, At: at})
			check.OK(t, err)
			return string(body), s
		}
		body, good := signature(r.queryKey, time.Now())
		foreign, forged := signature(checkers.NewQueryKey(), time.Now())
		old, stale := signature(r.queryKey, time.Now().Add(-2*checkers.QueryWindow))
		for _, tt := range []struct {
			name, method, body string
			signatures         []string
			want               int
		}{
			{"wrong method", http.MethodGet, "", []string{good}, http.StatusMethodNotAllowed},
			{"no signature", http.MethodPost, body, nil, http.StatusForbidden},
			{"empty signature", http.MethodPost, body, []string{""}, http.StatusForbidden},
			{"two signatures", http.MethodPost, body, []string{good, good}, http.StatusForbidden},
			{"signature of another query", http.MethodPost, body + " ", []string{good}, http.StatusForbidden},
			{"key of another process", http.MethodPost, foreign, []string{forged}, http.StatusForbidden},
			{"outdated", http.MethodPost, old, []string{stale}, http.StatusForbidden},
			{"too large", http.MethodPost, strings.Repeat("x", checkers.MaxQuery+1), []string{good}, http.StatusRequestEntityTooLarge},
			{"valid", http.MethodPost, body, []string{good}, http.StatusOK},
			{"repeated", http.MethodPost, body, []string{good}, http.StatusForbidden},
		} {
			if got, _ := r.explained(t, tt.method, strings.NewReader(tt.body), tt.signatures...); got != tt.want {
				t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
			}
		}
	})
}

func TestConcurrentQueries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		synctest.Wait()
		ends := make([]*io.PipeWriter, maxQueries)
		for i := range ends {
			var body *io.PipeReader
			body, ends[i] = io.Pipe()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, checkers.QueryPath, body)
			req.Header.Set(checkers.SignatureHeader, "00")
			go r.ServeHTTP(httptest.NewRecorder(), req)
		}
		synctest.Wait()
		if got, _ := r.explained(t, http.MethodPost, strings.NewReader("x"), "00"); got != http.StatusServiceUnavailable {
			t.Errorf("one query too many: got %d, want 503", got)
		}
		for _, w := range ends {
			_ = w.Close()
		}
		synctest.Wait()
		if got, _ := r.explained(t, http.MethodPost, strings.NewReader("x"), "00"); got != http.StatusForbidden {
			t.Errorf("after that: got %d, want 403", got)
		}
	})
}

func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	known := checkers.Reasons()
	for _, o := range outcomes {
		if o.reason != "" && !slices.Contains(known, checkers.Reason(o.reason)) {
			t.Errorf("reason %s is missing in package checkers", o.reason)
		}
	}
	for _, r := range known {
		if r != checkers.Revoked && !slices.ContainsFunc(outcomes, func(o outcomeRow) bool { return o.reason == string(r) }) {
			t.Errorf("reason %s of package checkers has no outcome", r)
		}
	}
}

func TestServeUsage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		r.with(full)
		ask := func(key checkers.QueryKey) (status int, a usage.Memory) {
			body, signature, err := key.SignQuery(checkers.Query{RequestID: "usage", At: time.Now(), Prefixes: []string{full[7:15], "nobodys0"}})
			check.OK(t, err)
			w := functest.Call{Method: http.MethodPost, Path: usage.MemoryPath, Body: string(body), Header: http.Header{checkers.SignatureHeader: {signature}}}.Send(t, r)
			_ = json.Unmarshal(w.Body, &a)
			return w.Status, a
		}
		status, got := ask(r.queryKey)
		want := []usage.Held{{Prefix: full[7:15], Source: r.process + "-1", Day: time.Now().UTC().Format(time.DateOnly), Allowed: 1}}
		if diff := cmp.Diff(want, got.Counts); diff != "" || status != http.StatusOK || got.Run != r.process || !got.At.Equal(time.Now()) {
			t.Errorf("got %d as of %s (-want +got):\n%s", status, got.At, diff)
		}
		if status, got := ask(checkers.NewQueryKey()); status != http.StatusForbidden || len(got.Counts) > 0 {
			t.Errorf("another key: got %d %+v, want 403", status, got)
		}
	})
}
