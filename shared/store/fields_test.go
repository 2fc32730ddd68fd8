package store_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// TestStoredFields lists the fields of each document. Add a new field here if it must be stored, or
// give it the tag firestore:"-".
func TestStoredFields(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"announcement": `app at environment expires_at gate.app gate.host gate.namespace gate.state gates.checkers gates.since id
			key.apps key.expires_at key.id key.name key.plan key.status key.within namespace outcome project quota.mode
			quota.percent quota.period quota.quota quota.reset_at quota.used revision subject time type`,
		"canary":   `address applied ceiling_ms features question_key run seq status`,
		"delivery": `action app app_created_at body build commit expires_at image reason revision`,
		"keylist":  `after changed day settled version`,
		"record":   `action actor actor_kind address at expires_at new old outcome plan_at project request_id resource within`,
		"summary":  `busiest days`,
		"used":     `attention parts used`,

		"app": `builds created_at deployed.at deployed.status environment gate.message gate.since gate.state
			git_source.branch git_source.path git_source.repository host image name namespace port preflight project
			require_api_key revision revisions trusts trusts.audience trusts.claims trusts.created_at trusts.created_by
			trusts.id trusts.issuer trusts.provider updated_at`,
		"build": `actor build commit digest finished_at image message note requested_at revision run_uid seen
			source.branch source.path source.repository status trigger`,
		"deployment": `actor applied_at build commit deployed_at digest held_build idle image message newest_build note
			ready_at record revision settled_at source_environment source_revision status trigger`,
		"environment": `created_at name namespace project`,
		"key": `apps created_at created_by environment expires_at leak.at leak.by leak.secret leak.source leak.url name
			namespace plan prefix previous previous_until project revoked_by secret status tags updated_at`,
		"plan":    `burst created_at id name namespace quota quota_mode quota_period rate updated_at`,
		"project": `created_at leak_policy members name registries usernames`,
		"receipt": `app at build code commit count delivery event expires_at last_at namespace reason request_id result revision`,
		"token":   `created_at created_by expires_at hash last_used name project role`,
		"user":    `admin created_at hash last_sign_in state username version`,
	}
	raw := rawClient(t, storetest.Project(t))
	documents := store.Documents(noon())
	check.Equal(t, "documents", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(documents)))
	for kind, doc := range documents {
		ref := raw.Collection("documents").Doc(kind)
		if _, err := ref.Set(t.Context(), doc); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		snap, err := ref.Get(t.Context())
		check.OK(t, err)
		if diff := cmp.Diff(strings.Fields(want[kind]), slices.Sorted(slices.Values(fieldPaths("", snap.Data())))); diff != "" {
			t.Errorf("fields of %s (-want +stored):\n%s", kind, diff)
		}
	}
}

func fieldPaths(prefix string, fields map[string]any) []string {
	var paths []string
	for name, value := range fields {
		path := prefix + name
		if list, ok := value.([]any); ok && len(list) > 0 {
			if first, ok := list[0].(map[string]any); ok {
				paths = append(append(paths, path), fieldPaths(path+".", first)...)
				continue
			}
		}
		if nested, ok := value.(map[string]any); ok {
			paths = append(paths, fieldPaths(path+".", nested)...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}
