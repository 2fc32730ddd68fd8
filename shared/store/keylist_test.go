package store_test

import (
	"testing"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// TestEntryWithoutTags verifies that an entry of an earlier release is corrected only if the key has
// tags.
func TestEntryWithoutTags(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	s, raw := storetest.Open(t, project), rawClient(t, project)
	storePlan(t, s, "shop-prod", "Starter")
	tagged := storeKey(t, s, func(k *apikey.Key) { k.Tags = []string{"batch"} })
	plain := storeKey(t, s, func(*apikey.Key) {})
	for _, k := range []apikey.Key{tagged, plain} {
		_, err := raw.Doc("keylist/"+string(k.ID())).Update(t.Context(), []firestore.Update{{Path: "tags", Value: firestore.Delete}})
		check.OK(t, err)
	}
	search := store.KeySearch{KeyFilter: store.KeyFilter{Project: "shop"}, Tag: "batch"}
	for _, want := range []int{1, 0} {
		_, corrected, err := s.RelistKeys(t.Context(), "", 10, func(apikey.Key, usage.History) {})
		check.OK(t, err)
		check.Equal(t, "corrected entries", want, corrected)
		found, err := s.FindKeys(t.Context(), search, store.KeyPlace{}, 10)
		check.OK(t, err)
		if len(found) != 1 || found[0].Prefix != tagged.Prefix || !found[0].Selected {
			t.Errorf("keys with the tag: got %+v, want %s", found, tagged.Prefix)
		}
	}
}
