package event

import (
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
)

func TestOfKeyChange(t *testing.T) {
	t.Parallel()
	active := apikey.Key{Status: apikey.Active, Secret: apikey.Hash{1}}
	with := func(change func(*apikey.Key)) apikey.Key {
		k := active
		change(&k)
		return k
	}
	disabled := with(func(k *apikey.Key) { k.Status = apikey.Disabled })
	revoked := with(func(k *apikey.Key) { k.Status = apikey.Revoked })
	tests := []struct {
		name            string
		stored, changed apikey.Key
		want            Type
	}{
		{"a rotation", active, with(func(k *apikey.Key) { k.Secret = apikey.Hash{2} }), KeyRotated},
		{"switched off", active, disabled, KeyDisabled},
		{"switched on", disabled, active, KeyEnabled},
		{"revoked", disabled, revoked, KeyRevoked},
		{"another name", active, with(func(k *apikey.Key) { k.Name = "ci" }), ""},
	}
	for _, tt := range tests {
		if got, ok := OfKeyChange(tt.stored, tt.changed); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %v", tt.name, got, ok)
		}
	}
}

func TestGateTransitionEvents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		before, now app.GateState
		want        Type
	}{
		{app.Pending, app.Engaged, GateEngaged},
		{app.Releasing, app.Ungated, GateReleased},
		{app.Engaged, app.Engaged, ""},
		{app.Engaged, app.Pending, ""},
		{app.Ungated, app.Pending, ""},
		{app.Engaged, app.Releasing, ""},
	}
	for _, tt := range tests {
		n, ok := OfGate(app.App{Gate: app.Gate{State: tt.now}}, tt.before)
		if ok != (tt.want != "") || ok && n.Type != tt.want {
			t.Errorf("from %s to %s: got %s, %v", tt.before, tt.now, n.Type, ok)
		}
	}
}

func TestQuotaThresholdReached(t *testing.T) {
	t.Parallel()
	tests := []struct {
		used  uint64
		quota int64
		want  int
	}{
		{0, 0, 0},
		{5, 0, 0},
		{79, 100, 0},
		{80, 100, 80},
		{99, 100, 80},
		{100, 100, 100},
		{101, 100, 100},
		{0, 1, 0},
		{1, 1, 100},
		{2, 3, 0},
		{3, 3, 100},
		{3, 4, 0},
		{4, 5, 80},
		{1 << 52, 1 << 53, 0},
	}
	for _, tt := range tests {
		if got := ThresholdReached(tt.used, tt.quota); got != tt.want {
			t.Errorf("%d of %d: got %d%%", tt.used, tt.quota, got)
		}
	}
}
