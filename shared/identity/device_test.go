package identity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestDevice(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	want := NewDevice("ada")
	want.Version = 7
	token, err := d.keys.SignDevice(want)
	check.OK(t, err)
	got, err := d.keys.VerifyDevice(token)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = d.keys.Verify(token)
	wantCode(t, err, problem.Unauthenticated) // it is not a session
	_, session := d.open(t, "ada", true)
	_, err = d.keys.VerifyDevice(session)
	wantCode(t, err, problem.Unauthenticated)
	_, err = d.keys.VerifyDevice(token[:len(token)-4] + "AAAA")
	wantCode(t, err, problem.Unauthenticated)
	_, err = testKeyring(t, d.clock, "a").VerifyDevice(token) // another installation's keys
	wantCode(t, err, problem.Unauthenticated)
	for name, odd := range map[string]Device{"an invalid name": {want.ID, "../x", 1}, "an invalid ID": {"x", "ada", 1}} {
		token, err := d.keys.SignDevice(odd)
		check.OK(t, err)
		if _, err := d.keys.VerifyDevice(token); !problem.Is(err, problem.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.clock.advance(DeviceTTL + time.Second)
	_, err = d.keys.VerifyDevice(token)
	wantCode(t, err, problem.Unauthenticated)
}
