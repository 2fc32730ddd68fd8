package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

// What is kept of a request names the key and nothing of the request itself, and
// has the field of the collection's TTL policy.
func TestKeyRequestDocument(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s := storetest.Open(t, project)
	storePlan(t, s, "shop-prod", "starter")
	k := storeKey(t, s, nil)
	r := apikey.NewRequest("ada", "shop", "form-1", noon())
	rename := func(k apikey.Key) (apikey.Key, error) { k.Name += "x"; return k, nil }
	if _, err := s.ReissueKey(t.Context(), k.ID(), r, rename); err != nil {
		t.Fatal(err)
	}
	snap, err := rawClient(t, project).Collection("deliveries").Doc(r.ID).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"key": string(k.ID()), "expires_at": noon().Add(24 * time.Hour)}
	if diff := cmp.Diff(want, snap.Data()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if _, err := s.ReissueKey(t.Context(), k.ID(), r, rename); !problem.Is(err, problem.AlreadyIssued) {
		t.Errorf("again: %v", err)
	}
	if got, err := s.Key(t.Context(), k.ID()); err != nil || got.Name != k.Name+"x" {
		t.Errorf("the key is called %q, %v", got.Name, err)
	}
}
