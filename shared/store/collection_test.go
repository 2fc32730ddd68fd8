package store_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestPaging(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var all []string
	for i := range 7 {
		all = append(all, fmt.Sprintf("plan-%d", i))
		storePlan(t, s, "shop-prod", fmt.Sprint(i))
		storePlan(t, s, "shop-staging", fmt.Sprint(i))
	}
	tests := []struct {
		size  int
		pages []int
	}{
		{1, []int{1, 1, 1, 1, 1, 1, 1}},
		{3, []int{3, 3, 1}},
		{6, []int{6, 1}},
		{7, []int{7}},
		{500, []int{7}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d at a time", tt.size), func(t *testing.T) {
			t.Parallel()
			var got []string
			var pages []int
			for page := (store.Page{Size: tt.size}); ; {
				plans, next, err := s.Plans(t.Context(), "shop-prod", page)
				check.OK(t, err)
				for _, p := range plans {
					got = append(got, string(p.ID))
				}
				pages = append(pages, len(plans))
				if page.Token = next; next == "" {
					break
				}
			}
			check.Equal(t, "listed", all, got)
			check.Equal(t, "page sizes", tt.pages, pages)
		})
	}
}

func TestPagingWhileChanging(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for _, name := range []string{"b", "d", "f"} {
		storePlan(t, s, "shop-prod", name)
	}
	_, next, err := s.Plans(t.Context(), "shop-prod", store.Page{Size: 2})
	if err != nil || next == "" {
		t.Fatalf("first page: got token %q, %v, want a token", next, err)
	}
	for _, id := range []plan.ID{"plan-b", "plan-d"} {
		check.OK(t, s.DeletePlan(t.Context(), "shop-prod", id, always))
	}
	storePlan(t, s, "shop-prod", "a")
	storePlan(t, s, "shop-prod", "e")
	plans, next, err := s.Plans(t.Context(), "shop-prod", store.Page{Size: 2, Token: next})
	if err != nil || next != "" {
		t.Fatalf("second page: got token %q, %v, want none", next, err)
	}
	var got []plan.ID
	for _, p := range plans {
		got = append(got, p.ID)
	}
	check.Equal(t, "second page", []plan.ID{"plan-e", "plan-f"}, got)
}

func TestInvalidPageToken(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for name, id := range map[string]string{
		"empty id": "", "slash": "a/b", "two slashes": "a/b/c", "dot": ".", "dots": "..", "NUL": "a\x00", "space": "a b",
		"not ASCII": "é", "too long": strings.Repeat("a", 513),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := base64.RawURLEncoding.EncodeToString([]byte(id))
			if token == "" {
				token = "!"
			}
			if _, _, err := s.Plans(t.Context(), "shop-prod", store.Page{Size: 1, Token: token}); !problem.Is(err, problem.InvalidPage) {
				t.Errorf("token for %q: got %v, want invalid_page", id, err)
			}
		})
	}
	for _, token := range []string{"!", "====", "YQ==", "a b", "\x00"} {
		if _, _, err := s.Plans(t.Context(), "shop-prod", store.Page{Size: 1, Token: token}); !problem.Is(err, problem.InvalidPage) {
			t.Errorf("token %q: got %v, want invalid_page", token, err)
		}
	}
}

// storePlan stores a plan with ID plan-{name}, its project and its environment.
func storePlan(t testing.TB, s *store.Store, namespace, name string) plan.Plan {
	t.Helper()
	project, environment, _ := strings.Cut(namespace, "-")
	storetest.Environment(t, s, project, environment)
	p := plan.Plan{
		ID: plan.IDFor(name), Namespace: namespace, Name: name,
		Limits:    plan.Limits{Rate: 10, Burst: 20, Quota: 1000, Period: plan.Month},
		CreatedAt: noon(), UpdatedAt: noon(),
	}
	if _, err := s.CreatePlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func rawClient(t testing.TB, project string) *firestore.Client {
	t.Helper()
	c, err := firestore.NewClient(t.Context(), project)
	check.OK(t, err)
	check.Closes(t, c)
	return c
}

func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 123456000, time.UTC) }
