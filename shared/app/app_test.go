package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestKind(t *testing.T) {
	t.Parallel()
	if got := (App{Image: "registry.example.com/hello:1"}).Kind(); got != ImageApp {
		t.Errorf("without a git source: %s", got)
	}
	if got := (App{GitSource: &GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"}}).Kind(); got != GitApp {
		t.Errorf("with a git source: %s", got)
	}
}

func TestSwitch(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	now := since.Add(time.Hour)
	tests := []struct {
		from GateState
		on   bool
		want GateState // equal to from if unchanged
	}{
		{Ungated, true, Pending},
		{Ungated, false, Ungated},
		{Pending, true, Pending},
		{Pending, false, Releasing},
		{Engaged, true, Engaged},
		{Engaged, false, Releasing},
		{Releasing, true, Pending},
		{Releasing, false, Releasing},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s set %t", tt.from, tt.on), func(t *testing.T) {
			t.Parallel()
			before := Gate{State: tt.from, Since: since, Message: "as it was"}
			want := before
			if tt.want != tt.from {
				want = Gate{State: tt.want, Since: now}
			}
			check.Equal(t, "switched", want, before.Switch(tt.on, now))
		})
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	now := since.Add(time.Hour)
	for from, want := range map[GateState]Gate{
		Ungated:   {State: Ungated, Since: since, Message: "as it was"},
		Pending:   {State: Pending, Since: now},
		Engaged:   {State: Pending, Since: now},
		Releasing: {State: Releasing, Since: since, Message: "as it was"},
	} {
		if got := (Gate{State: from, Since: since, Message: "as it was"}).Renew(now); got != want {
			t.Errorf("from %s: got %+v, want %+v", from, got, want)
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	ranks := []Role{Viewer, Developer, Owner}
	for i, has := range ranks {
		if !has.Valid() {
			t.Errorf("%s is not a valid role", has)
		}
		for j, need := range ranks {
			if got := has.Allows(need); got != (i >= j) {
				t.Errorf("%s allows %s: got %t", has, need, got)
			}
		}
	}
	for _, invalid := range []Role{"", "admin", "Owner"} {
		if invalid.Valid() || invalid.Allows(Viewer) || invalid.Allows(invalid) || Owner.Allows(invalid) {
			t.Errorf("%q is accepted as a role", invalid)
		}
	}
}
