package session

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func (d *desk) audited(t *testing.T, action audit.Action) []audit.Record {
	t.Helper()
	records, _, err := d.store.Records(t.Context(), audit.Query{Actions: []audit.Action{action}}, store.Page{Size: 500})
	check.OK(t, err)
	return records
}

// Successful and failed sign-ins are recorded, but never text that may be a password.
func TestSignInsAreRecorded(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	const slip = "my-secret-password" // typed instead of the username; a valid username
	d.trySignIn("root", adminPassword+"x").Refused(http.StatusUnauthorized, "invalid_credentials")
	d.trySignIn(slip, "x").Refused(http.StatusUnauthorized, "invalid_credentials")
	s := d.signIn("root", adminPassword)
	functest.Call{Method: "DELETE", Path: "/api/v1/session", Header: functest.Bearer(s.Token)}.Send(t, d.handler).Is(http.StatusNoContent)
	var got []string
	for _, r := range d.audited(t, audit.SignIn) {
		got = append(got, fmt.Sprintf("%s %q %s %s", r.Actor.Kind, r.Actor.Name, r.Resource, r.Outcome))
		if text := fmt.Sprint(r); strings.Contains(text, slip) || strings.Contains(text, adminPassword) || strings.Contains(text, s.Token) {
			t.Errorf("the record contains a secret: %s", text)
		}
		if !reqctx.ValidID(r.Origin.ID) {
			t.Errorf("unexpected origin: %+v", r.Origin)
		}
	}
	want := []string{`user "root" users/root succeeded`, `anonymous "" users failed`, `anonymous "root" users/root failed`}
	check.Equal(t, "sign-ins", want, got)
	if out := d.audited(t, audit.SignOut); len(out) != 1 || out[0].Resource != "users/root" || out[0].Actor.Name != "root" {
		t.Errorf("sign-outs: got %+v", out)
	}
	if n := d.counted(t, wrong); n != 2 {
		t.Errorf("unexpected count of failed sign-ins: %f", n)
	}
}

func (d *desk) counted(t *testing.T, outcome string) float64 {
	t.Helper()
	n, ok := functest.Metrics(t, d.service.Collectors()...)["sluice_sign_ins_total "+outcome]
	if !ok {
		t.Fatalf("no count of %s", outcome)
	}
	return n
}

func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b := newBudget(now, recordsAtOnce, recordsEvery)
	taken := 0
	for range 10 * recordsAtOnce {
		if _, ok := b.take(now); ok {
			taken++
		}
	}
	if taken != recordsAtOnce {
		t.Errorf("unexpected number of records: %d", taken)
	}
	if _, ok := b.take(now.Add(recordsEvery - 1)); ok {
		t.Error("a record was allowed before the pause ended")
	}
	if left, ok := b.take(now.Add(recordsEvery)); !ok || left != 9*recordsAtOnce+1 {
		t.Errorf("after the pause: got %t, %d unrecorded", ok, left)
	}
	b.addOmitted(3)
	if left, ok := b.take(now.Add(2 * recordsEvery)); !ok || left != 3 {
		t.Errorf("after a failed write: got %t, %d unrecorded", ok, left)
	}
}

func TestSignInsDoNotFillTheStore(t *testing.T) {
	t.Parallel()
	d := newQuickDesk(t)
	d.addUser("ci", adaPassword)
	for range 62 {
		d.signIn("ci", adaPassword)
		d.clock.Advance(time.Minute)
	}
	signInFrom("ci", adaPassword, "198.51.100.7", "").Send(t, d.handler).Is(http.StatusOK)
	records := d.audited(t, audit.SignIn)
	if len(records) != 23 {
		t.Errorf("got %d records of 63 sign-ins, want the first, 20 more, the next after an hour, and the one from another address", len(records))
	}
	var told []string
	for _, r := range records[:min(3, len(records))] {
		told = append(told, fmt.Sprint(r.New["unrecorded"]))
	}
	check.Equal(t, "unrecorded sign-ins in the last records", []string{"<nil>", "40", "<nil>"}, told)
}
