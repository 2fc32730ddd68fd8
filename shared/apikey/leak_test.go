package apikey

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWithLeak(t *testing.T) {
	t.Parallel()
	now := noon()
	before := now.Add(-time.Hour)
	current, previous, foreign := Hash{1}, Hash{2}, Hash{3}
	rotated := Key{Status: Active, Secret: current, Previous: previous, PreviousUntil: now.Add(time.Hour), UpdatedAt: before}
	leak := func(h Hash) Leak {
		return Leak{Secret: h, At: now, By: "program:github", URL: "https://git.example.com/x"}
	}
	with := func(k Key, change func(*Key)) Key { change(&k); return k }
	known := leak(current)
	old := leak(previous)
	plain := with(rotated, func(k *Key) { k.Previous, k.PreviousUntil = Hash{}, time.Time{} })
	tests := []struct {
		name   string
		key    Key
		secret Hash
		policy LeakPolicy
		want   Key
	}{
		{"the current secret", plain, current, LeakDisable, with(plain, func(k *Key) { k.Status, k.UpdatedAt, k.Leak = Disabled, now, &known })},
		{"the current secret of a project that revokes", plain, current, LeakRevoke, with(plain, func(k *Key) {
			k.Status, k.UpdatedAt, k.RevokedBy, k.Leak = Revoked, now, "program:github", &known
		})},
		{"the previous secret, in its grace period", rotated, previous, LeakRevoke, with(plain, func(k *Key) { k.UpdatedAt, k.Leak = now, &old })},
		{"the previous secret, after its grace period", with(rotated, func(k *Key) { k.PreviousUntil = now }), previous, LeakRevoke, with(rotated, func(k *Key) { k.PreviousUntil = now })},
		{"another secret", rotated, foreign, LeakRevoke, rotated},
		{"no secret", plain, Hash{}, LeakRevoke, plain},
		{"the same again", with(plain, func(k *Key) { k.Leak = &known }), current, LeakRevoke, with(plain, func(k *Key) { k.Leak = &known })},
		{"of a disabled key", with(plain, func(k *Key) { k.Status = Disabled }), current, LeakDisable, with(plain, func(k *Key) {
			k.Status, k.UpdatedAt, k.Leak = Disabled, now, &known
		})},
		{
			"of a revoked key, which keeps when it was", with(plain, func(k *Key) { k.Status, k.RevokedBy = Revoked, "ada" }), current, LeakRevoke,
			with(plain, func(k *Key) { k.Status, k.RevokedBy, k.Leak = Revoked, "ada", &known }),
		},
		{
			"the previous secret, after a leak of the current one", with(rotated, func(k *Key) { k.Status, k.Leak = Disabled, &known }), previous, LeakDisable,
			with(plain, func(k *Key) { k.Status, k.Leak, k.UpdatedAt = Disabled, &known, now }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.key.WithLeak(leak(tt.secret), tt.policy)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("key (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, got.WithLeak(leak(tt.secret), tt.policy)); diff != "" {
				t.Errorf("repeated leak (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestRotateExposed(t *testing.T) {
	t.Parallel()
	now := noon()
	k := Key{Status: Active, Secret: Hash{1}}.WithLeak(Leak{Secret: Hash{1}, At: now}, LeakDisable)
	k, err := k.Rotate(Hash{2}, time.Hour, now)
	if err != nil || k.HasPrevious(now) || k.Previous != (Hash{}) || k.Exposed() || k.Leak == nil {
		t.Fatalf("rotated key: got %+v, %v, want no previous secret", k, err)
	}
	if k, err = k.Rotate(Hash{3}, time.Hour, now); err != nil || !k.HasPrevious(now) {
		t.Errorf("second rotation: got %+v, %v, want a previous secret", k, err)
	}
}

func TestFoundAt(t *testing.T) {
	t.Parallel()
	full := "sluice_ab12cd34_" + strings.Repeat("A", SecretLength)
	token := "sluice_st_ab12cd34ef56_" + strings.Repeat("A", SecretLength)
	for text, want := range map[string]string{
		"": "",
		"https://git.example.com/shop/blob/main/a.sh#L3": "https://git.example.com/shop/blob/main/a.sh#L3",
		"https://example.com/?key=" + full + "&a=b":      "https://example.com/?key=sluice_[redacted]&a=b",
		"https://example.com/?t=" + token:                "https://example.com/?t=sluice_[redacted]",
		"https://example.com/?key=%73" + full[1:]:        "sluice_[redacted]",
		"  a\r\nX-Evil: b\x00\u202e\xff ":                "aX-Evil: b?",
		strings.Repeat("é", 501):                         strings.Repeat("é", 499) + "…",
		strings.Repeat("é", 500):                         strings.Repeat("é", 500),
	} {
		if got := FoundAt(text); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}
