package replicas

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestChanges checks that all checkers deny a key after its confirmed revocation (promise F7).
func TestChanges(t *testing.T) {
	const trials = 20
	for _, n := range numbers() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			row := together.Test(t, fmt.Sprint(n), fmt.Sprintf("%d revocations that wait", trials), "in force at all checkers; then each denies the key")
			site := stacktest.New(t, stackOf(t, n))
			waiting, plan := site.Client.WithWait(20*time.Second), site.Plan(wire.CreatePlan{})
			replicas := stacktest.Replicas(t, site.Stack)
			var longest time.Duration
			for range trials {
				key := site.Key(plan)
				site.Opens("hello", key)
				begun := time.Now()
				k, err := waiting.RevokeKey(t.Context(), site.Project, key.ID)
				if longest = max(longest, time.Since(begun)); err != nil || k.InForce == nil || !k.InForce.Everywhere {
					t.Fatalf("revoke: got %+v, %v, want in force everywhere", k.InForce, err)
				}
				followed := map[string]bool{}
				for _, r := range k.InForce.Replicas {
					followed[r.Replica] = r.State == "applied"
				}
				if len(followed) != n {
					t.Errorf("replicas in the response: got %+v, want %d", k.InForce.Replicas, n)
				}
				for _, r := range replicas {
					if a, err := r.Check(t.Context(), site.Project+"-"+site.Env, "hello", key.Full); err != nil || a.Status != http.StatusUnauthorized {
						t.Errorf("%s: got %d, %v after the revocation, want %d", r.URL, a.Status, err, http.StatusUnauthorized)
					}
				}
			}
			row.Measured(fmt.Sprintf("at most %v each", longest.Round(time.Millisecond)))
		})
	}
}
