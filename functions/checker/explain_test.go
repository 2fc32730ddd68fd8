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

// explained sends a query to a replica as it is.
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
		t.Errorf("%d with %s", rec.Code, rec.Body)
	}
	return rec.Code, a
}

// why asks as who has read a replica's canary does.
func (r *replica) why(t *testing.T, id string, namespaces ...string) []checkers.Denial {
	t.Helper()
	body, signature, err := r.queryKey.SignQuery(checkers.Query{RequestID: id, Namespaces: namespaces, At: time.Now()})
	check.OK(t, err)
	status, a := r.explained(t, http.MethodPost, strings.NewReader(string(body)), signature)
	if status != http.StatusOK || a.Replica != "checker-0" || a.Run != r.process || a.Denials == nil {
		t.Fatalf("%d %+v", status, a)
	}
	return a.Denials
}

// TestExplain: a request is told with its reason to who may see its app's namespace, and
// what is in the canary opens the replica.
func TestExplain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStore()
		expired := issue(t, f, func(k *apikey.Key) { k.ExpiresAt = time.Now() })
		r := newReplica(t, f)
		synctest.Wait()
		r.ask("shop-prod/hello", "X-Api-Key", expired, "X-Request-Id", "mine")
		time.Sleep(time.Second)
		r.ask("bank-prod/hello", "X-Request-Id", "mine")
		r.ask("shop-prod/no.address", "X-Request-Id", "mine")
		at := time.Now().UTC()
		want := []checkers.Denial{{
			At: at.Add(-time.Second), Code: "invalid_key", Reason: "expired", Namespace: "shop-prod", App: "hello", KeyPrefix: expired[7:15], Method: "GET",
		}}
		check.Equal(t, "what shop sees", want, r.why(t, "mine", "shop-prod", "shop-test"))
		if got := r.why(t, "mine", "bank-prod"); len(got) != 1 || got[0].Reason != "missing" || got[0].KeyPrefix != "" {
			t.Errorf("what bank sees: %+v", got)
		}
		for _, unseen := range [][]string{{"shop-prod", "other"}, {"", "mine"}, {"shop", "mine"}} {
			if got := r.why(t, unseen[1], unseen[0]); len(got) != 0 {
				t.Errorf("%v: %+v", unseen, got)
			}
		}
		for range 2 * checkers.MaxDenials {
			r.ask("shop-prod/hello", "X-Request-Id", "same")
		}
		if got := r.why(t, "same", "shop-prod"); len(got) != checkers.MaxDenials {
			t.Errorf("%d are told", len(got))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if c := f.canaries[store.CanaryKeys]; c.Key != r.queryKey || c.Key == (checkers.QueryKey{}) {
			t.Error("the canary does not have the key")
		}
	})
}

// TestExplainIsNotForAnybody: what reaches the port gets nothing but a status.
func TestExplainIsNotForAnybody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		synctest.Wait()
		r.ask("shop-prod/hello", "X-Request-Id", "mine")
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
			{"not how it is asked", http.MethodGet, "", []string{good}, http.StatusMethodNotAllowed},
			{"no signature", http.MethodPost, body, nil, http.StatusForbidden},
			{"an empty one", http.MethodPost, body, []string{""}, http.StatusForbidden},
			{"two", http.MethodPost, body, []string{good, good}, http.StatusForbidden},
			{"another query's", http.MethodPost, body + " ", []string{good}, http.StatusForbidden},
			{"of another process", http.MethodPost, foreign, []string{forged}, http.StatusForbidden},
			{"of another time", http.MethodPost, old, []string{stale}, http.StatusForbidden},
			{"too large", http.MethodPost, strings.Repeat("x", checkers.MaxQuery+1), []string{good}, http.StatusRequestEntityTooLarge},
			{"the right one", http.MethodPost, body, []string{good}, http.StatusOK},
			{"again", http.MethodPost, body, []string{good}, http.StatusForbidden},
		} {
			if got, _ := r.explained(t, tt.method, strings.NewReader(tt.body), tt.signatures...); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
			}
		}
	})
}

// TestExplainIsBounded: who holds queries back keeps others waiting for a moment, and
// not for memory.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newFakeStore())
		synctest.Wait()
		ends := make([]*io.PipeWriter, explaining)
		for i := range ends {
			var body *io.PipeReader
			body, ends[i] = io.Pipe()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, checkers.QueryPath, body)
			req.Header.Set(checkers.SignatureHeader, "00")
			go r.ServeHTTP(httptest.NewRecorder(), req)
		}
		synctest.Wait()
		if got, _ := r.explained(t, http.MethodPost, strings.NewReader("x"), "00"); got != http.StatusServiceUnavailable {
			t.Errorf("one more: %d", got)
		}
		for _, w := range ends {
			_ = w.Close()
		}
		synctest.Wait()
		if got, _ := r.explained(t, http.MethodPost, strings.NewReader("x"), "00"); got != http.StatusForbidden {
			t.Errorf("then: %d", got)
		}
	})
}

// TestReasonsAreExplained: whatever a request is refused for is said in words.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	known := checkers.Reasons()
	for _, o := range outcomes {
		if o.reason != "" && !slices.Contains(known, checkers.Reason(o.reason)) {
			t.Errorf("%s is not explained", o.reason)
		}
	}
	for _, r := range known {
		if r != checkers.Revoked && !slices.ContainsFunc(outcomes, func(o result) bool { return o.reason == string(r) }) {
			t.Errorf("%s is explained, and no reason", r)
		}
	}
}

// The requests of a key are in the usage that the replica returns at once, for callers that
// have read its canary and for no others.
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
