package user

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestValidName(t *testing.T) {
	t.Parallel()
	valid := []string{"a", "0", "ada", "ada.lovelace", "ada_l", "a--b..c__d", "a.", strings.Repeat("a", 40)}
	invalid := []string{
		"", ".", "..", ".ada", "-ada", "_ada", "Ada", "ada lovelace", "ada/..", "ada\x00", "ada\n", "ädä", "__ada__",
		strings.Repeat("a", 41),
	}
	for _, s := range valid {
		if !ValidName(s) || CheckName(s) != nil {
			t.Errorf("%q is rejected", s)
		}
	}
	for _, s := range invalid {
		if ValidName(s) || !problem.Is(CheckName(s), problem.InvalidName) {
			t.Errorf("%q is accepted", s)
		}
	}
}

// The clock may be set back, or the user created again.
func TestVersions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	u := New("ada", "a", false, now)
	first := u.Version
	for _, at := range []time.Time{now, now, now.Add(-time.Hour), now.Add(time.Second)} {
		next := u.WithPassword("b", at)
		if next.Version <= u.Version || next.Hash != "b" || next.Name != "ada" {
			t.Errorf("got %+v after %+v", next, u)
		}
		u = next
	}
	if again := New("ada", "c", false, now.Add(time.Minute)); again.Version <= u.Version || first >= u.Version {
		t.Errorf("created again: got version %d after %d and %d", again.Version, first, u.Version)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	u := New("ada", "a", true, now)
	off := u.WithState(Deactivated, now)
	if off.State != Deactivated || off.Version <= u.Version || off.ActiveAdmin() || !u.ActiveAdmin() {
		t.Errorf("deactivated: got %+v after %+v", off, u)
	}
	if again := off.WithState(Deactivated, now); again != off {
		t.Errorf("deactivated twice: got %+v, want %+v", again, off)
	}
	if on := off.WithState(Active, now); on.State != Active || on.Version != off.Version {
		t.Errorf("activated: got %+v after %+v", on, off)
	}
	for _, s := range []State{"", "ACTIVE", "removed"} {
		if s.Valid() {
			t.Errorf("state %q is accepted", s)
		}
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		user    User
		version int64
		want    Standing
	}{
		{"a user", User{State: Active, Version: 2}, 2, Standing{}},
		{"an admin", User{State: Active, Version: 2, Admin: true}, 2, Standing{Admin: true}},
		{"an earlier version", User{State: Active, Version: 2, Admin: true}, 1, Standing{Over: true}},
		{"a deactivated admin", User{State: Deactivated, Version: 2, Admin: true}, 2, Standing{Over: true}},
		{"an unknown state", User{State: "new", Version: 2, Admin: true}, 2, Standing{Over: true}},
	} {
		if got := tt.user.Standing(tt.version); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestSignInDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if !(User{}).SignInDue(now) || (User{LastSignIn: now}).SignInDue(now.Add(signInEvery-1)) || !(User{LastSignIn: now}).SignInDue(now.Add(signInEvery)) {
		t.Errorf("want the first sign-in, and one each %s", signInEvery)
	}
}

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, password string
		ok             bool
	}{
		{"12 characters", strings.Repeat("a", 12), true},
		{"256 characters", strings.Repeat("a", 256), true},
		{"12 characters of three bytes", strings.Repeat("€", 12), true},
		{"256 characters of three bytes", strings.Repeat("€", 256), true},
		{"spaces and controls", " \t correct horse \n", true},
		{"empty", "", false},
		{"11 characters", strings.Repeat("a", 11), false},
		{"11 characters of three bytes", strings.Repeat("€", 11), false},
		{"257 characters", strings.Repeat("a", 257), false},
		{"not UTF-8", strings.Repeat("\xff", 12), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckPassword(tt.password)
			if tt.ok && err != nil || !tt.ok && !problem.Is(err, problem.InvalidPass) {
				t.Errorf("got error %v", err)
			}
		})
	}
}
