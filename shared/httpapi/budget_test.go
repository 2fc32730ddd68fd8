package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/tests/check"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	o := new(office)
	a := NewAPI(slog.New(slog.DiscardHandler), o, o).Within(Budget{Rate: 2, Burst: 4})
	a.budgets.now = func() time.Time { return now }
	for _, row := range []*api.Row{api.GetProject.Row, api.GetApp.Row, api.GetChange.Row, api.GetBuild.Row, api.SignOut.Row} {
		a.Handle(row.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
			_, err := a.scope(row, w.Header(), r)
			return err
		})
	}
	send := func(user, method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, api.Base+path, http.NoBody)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	get := func(user string, status int, left string) {
		t.Helper()
		w := send(user, http.MethodGet, "/projects/shop")
		if w.Code != status || w.Header().Get("RateLimit-Policy") != `"rate";q=4;w=2` || w.Header().Get("RateLimit") != left {
			t.Errorf("%s: got %d %v, want %d and %s", user, w.Code, w.Header(), status, left)
		}
		if spent := status == http.StatusTooManyRequests; spent != (w.Header().Get("Retry-After") == "1") {
			t.Errorf("%s: got %d with Retry-After %q", user, status, w.Header().Get("Retry-After"))
		}
	}
	get("vic", http.StatusOK, `"rate";r=3;t=2`)
	get("vic", http.StatusOK, `"rate";r=2;t=1`)
	get("vic", http.StatusOK, `"rate";r=1;t=1`)
	get("vic", http.StatusOK, `"rate";r=0;t=1`)
	get("vic", http.StatusTooManyRequests, `"rate";r=0;t=1`)
	get("own", http.StatusOK, `"rate";r=3;t=2`)
	get("out", http.StatusForbidden, `"rate";r=3;t=2`)
	for _, path := range []string{"/projects/shop/environments/prod/apps/hello", "/projects/shop/changes/x", "/projects/shop/environments/prod/apps/hello/builds/1"} {
		if w := send("vic", http.MethodGet, path); w.Code != http.StatusOK || w.Header().Get("RateLimit") != "" {
			t.Errorf("status poll %s: got %d %v", path, w.Code, w.Header())
		}
	}
	if w := send("vic", http.MethodDelete, "/session"); w.Code != http.StatusOK {
		t.Errorf("sign-out: got %d %s", w.Code, w.Body)
	}
	if w := send("", http.MethodGet, "/projects/shop"); w.Code != http.StatusUnauthorized || w.Header().Get("RateLimit-Policy") != "" {
		t.Errorf("no session: got %d %v", w.Code, w.Header())
	}
	now = now.Add(time.Second)
	get("vic", http.StatusOK, `"rate";r=1;t=1`)
}

func TestBudgetOfTokens(t *testing.T) {
	t.Parallel()
	b := newBudgets(Budget{Rate: 0.01, Burst: 1})
	for _, id := range []servicetoken.ID{"token-000000000001", "token-000000000002", ""} {
		who := identity.Caller{Username: "token:nightly", Grant: identity.Grant{Token: id}}
		if err := b.take(who, http.Header{}); err != nil {
			t.Errorf("%q: got %v", id, err)
		}
		if err := b.take(who, http.Header{}); err == nil {
			t.Errorf("%q: second call allowed", id)
		}
	}
}

func TestBudgetsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	b := newBudgets(Budget{Rate: 1, Burst: 2})
	b.now = func() time.Time { return now }
	for i := range 10 * minSweep {
		check.OK(t, b.take(identity.Caller{Username: fmt.Sprintf("user-%d", i)}, http.Header{}))
		now = now.Add(10 * time.Millisecond)
	}
	if n := len(b.left); n > minSweep {
		t.Errorf("principals in memory: got %d, want at most %d", n, minSweep)
	}
}

func TestBudgetIsChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []Budget{{}, {Rate: 50}, {Rate: -1, Burst: 500}, {Rate: 50, Burst: -1}, {Rate: 1e6, Burst: 1}} {
		if bad.Check() == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
	if err := (Budget{Rate: 50, Burst: 500}).Check(); err != nil {
		t.Error(err)
	}
}
