package tests

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	table "github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func reportSecrets(t *testing.T, found ...wire.FoundSecret) {
	t.Helper()
	body, err := json.Marshal(found)
	check.OK(t, err)
	head := scanner.Sign(t, scannersKey, string(body))
	var pairs []string
	for name := range head {
		pairs = append(pairs, name, head.Get(name))
	}
	s := stacktest.Site{T: t, Stack: world}
	if a := s.Post(world.Info().BaseURL+table.ReportLeaks.Path, body, pairs...); a.Status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", a.Status, a.Body)
	}
}

func TestLeakedKey(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k, rotated := s.AnyKey(), s.AnyKey()
	old := rotated
	rotated = s.Rotate(rotated, time.Hour)
	for _, one := range []stacktest.Key{k, old, rotated} {
		s.Opens("hello", one)
	}
	reportSecrets(t, wire.FoundSecret{Token: k.Full, URL: "https://git.example.com/x", Source: "commit"}, wire.FoundSecret{Token: old.Full}, wire.FoundSecret{Token: "sluice_gate"})
	s.Refuses("hello", k)
	s.Refuses("hello", old)
	s.Call("hello").Key(rotated).Gets(http.StatusOK)
	got, err := s.Client.Key(t.Context(), s.Project, k.ID)
	if err != nil || got.Status != "disabled" || got.Leak == nil || got.Leak.FoundAt != "https://git.example.com/x" || got.Leak.By != "program:scanner" {
		t.Errorf("key: got %s, %+v, %v, want disabled with the leak", got.Status, got.Leak, err)
	}
	records, err := client.Collect(s.Client.Audit(t.Context(), s.Project, client.AuditQuery{Action: "key.leak", Resource: "projects/" + s.Project + "/api-keys/" + k.ID}))
	if err != nil || len(records) != 1 {
		t.Fatalf("records: got %d, %v, want 1", len(records), err)
	}
	if f, err := s.Client.WithWait(20*time.Second).Change(t.Context(), s.Project, records[0].ID); err != nil || !f.Everywhere {
		t.Errorf("change: got %+v, %v, want it in force everywhere", f, err)
	}
	report, err := s.Client.EnvironmentUsage(t.Context(), s.Project, s.Env, "", "")
	check.OK(t, err)
	leaked := 0
	for _, a := range report.Attention {
		if a.Reason == wire.KeyLeaked {
			leaked++
		}
	}
	if leaked != 2 {
		t.Errorf("leaked keys that need attention: got %d, want 2: %+v", leaked, report.Attention)
	}
	// Recovery: the leaked secret gets no grace period.
	next := s.Rotate(k, time.Hour)
	s.Enable(k)
	s.Opens("hello", next)
	s.Refuses("hello", k)
}

func TestLeakedServiceToken(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	name, role := "leaked", "owner"
	token, full, err := s.Client.CreateToken(t.Context(), s.Project, wire.CreateToken{Name: &name, Role: &role})
	check.OK(t, err)
	reportSecrets(t, wire.FoundSecret{Token: string(full), URL: "https://git.example.com/x", Source: "commit"})
	if _, err := s.Client.WithToken(full).WhoAmI(t.Context()); !client.HasCode(err, "unauthenticated") {
		t.Errorf("got %v, want unauthenticated", err)
	}
	usage, err := s.Client.EnvironmentUsage(t.Context(), s.Project, s.Env, "", "")
	if err != nil || len(usage.LeakedTokens) != 1 || usage.LeakedTokens[0].TokenID != token.ID || usage.LeakedTokens[0].FoundAt != "https://git.example.com/x" {
		t.Errorf("leaked tokens: got %+v, %v, want token %s", usage.LeakedTokens, err, token.ID)
	}
}
