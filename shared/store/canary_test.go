package store_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/store/storetest"
)

func TestDeleteStaleCanaries(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	all := []store.CanaryType{store.CanaryKeys, store.CanaryPlans, store.CanaryCounters}
	for _, kind := range all {
		for _, replica := range []string{"a", "b"} {
			if err := s.WriteCanary(t.Context(), kind, store.Canary{Replica: replica, Run: "r", Seq: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Neighbours in the order of ids are none.
	for _, id := range []string{"canary", "canary-a", "canary0", "canaries.a"} {
		if _, err := raw.Doc("keys/"+id).Set(t.Context(), map[string]any{"x": 1}); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := raw.Doc("keys/canary.a").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeleteStaleCanaries(t.Context(), snap.UpdateTime.Add(-time.Second)); err != nil || n != 0 {
		t.Errorf("%d deleted that were fresh; error %v", n, err)
	}
	if n, err := s.DeleteStaleCanaries(t.Context(), snap.UpdateTime.Add(time.Hour)); err != nil || n != 6 {
		t.Errorf("%d deleted; error %v", n, err)
	}
	left, err := raw.Collection("keys").Documents(t.Context()).GetAll()
	if err != nil || len(left) != 4 {
		t.Errorf("%d left, %v", len(left), err)
	}
}
