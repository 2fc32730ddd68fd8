package session

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
)

// audited lists the installation's records of an action, newest first.
func (d *desk) audited(t *testing.T, action audit.Action) []audit.Record {
	t.Helper()
	records, _, err := d.store.Records(t.Context(), audit.Query{Action: action}, store.Page{Size: 500})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// TestSignInsAreRecorded, those that fail too; but never what may be a password.
func TestSignInsAreRecorded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const slip = "my-secret-password" // typed where the name belongs, and a name that could be
	d.trySignIn("root", adminPassword+"x").want(t, http.StatusUnauthorized, "invalid_credentials")
	d.trySignIn(slip, "x").want(t, http.StatusUnauthorized, "invalid_credentials")
	s := d.signIn("root", adminPassword)
	if a := d.do(call{method: "DELETE", path: "/api/v1/session", token: s.Token}); a.status != http.StatusNoContent {
		t.Fatalf("sign out: %d %s", a.status, a.body)
	}
	var got []string
	for _, r := range d.audited(t, audit.SignIn) {
		got = append(got, fmt.Sprintf("%s %q %s %s", r.Actor.Kind, r.Actor.Name, r.Resource, r.Outcome))
		if text := fmt.Sprint(r); strings.Contains(text, slip) || strings.Contains(text, adminPassword) || strings.Contains(text, s.Token) {
			t.Errorf("a secret is in %s", text)
		}
		if !trace.ValidID(r.Origin.ID) {
			t.Errorf("request %+v", r.Origin)
		}
	}
	want := []string{`user "root" users/root succeeded`, `anonymous "" users failed`, `anonymous "root" users/root failed`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sign-ins (-want +got):\n%s", diff)
	}
	if out := d.audited(t, audit.SignOut); len(out) != 1 || out[0].Resource != "users/root" || out[0].Actor.Name != "root" {
		t.Errorf("sign-outs %+v", out)
	}
	if n := d.counted(t, wrong); n != 2 {
		t.Errorf("%f failed sign-ins are counted", n)
	}
}

// counted reads how many sign-ins have had an outcome.
func (d *desk) counted(t *testing.T, outcome string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(d.service.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "sluice_sign_ins_total" && m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no count of %s", outcome)
	return 0
}

// TestBudget: failed sign-ins cannot fill the store.
func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := newBudget(now)
	taken := 0
	for range 10 * recordsAtOnce {
		if b.take(now) {
			taken++
		}
	}
	if taken != recordsAtOnce {
		t.Errorf("%d records at once", taken)
	}
	if b.take(now.Add(recordsEvery - 1)) {
		t.Error("one more too early")
	}
	if !b.take(now.Add(recordsEvery)) {
		t.Error("none after the pause")
	}
}
