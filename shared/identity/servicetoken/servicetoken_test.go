package servicetoken

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newToken(t *testing.T) (Token, Full) {
	t.Helper()
	token, full, err := New(apikey.Random(), Token{Project: "shop", Name: "nightly", Role: app.Developer, ExpiresAt: noon().Add(time.Hour)})
	check.OK(t, err)
	return token, full
}

func TestTokenFormat(t *testing.T) {
	t.Parallel()
	token, full := newToken(t)
	if len(full) != 61 || !strings.HasPrefix(string(full), "sluice_st_"+strings.TrimPrefix(string(token.ID), "token-")+"_") {
		t.Errorf("ID %s, full token %q", token.ID, string(full))
	}
	if id, ok := full.ID(); !ok || id != token.ID || !id.Valid() {
		t.Errorf("parsed ID: got %s, %t", id, ok)
	}
	if _, ok := apikey.Parse([]byte(full)); ok {
		t.Error("the token is also an API key")
	}
	if again, other := newToken(t); again.ID == token.ID || other == full || again.Hash == token.Hash {
		t.Error("two tokens are equal")
	}
	for _, printed := range []string{fmt.Sprint(full), fmt.Sprintf("%#v", full), fmt.Sprintf("%q", full), full.LogValue().String()} {
		if strings.Contains(printed, string(full)) {
			t.Errorf("printed: got %s", printed)
		}
	}
	for _, fails := range []int64{0, 64} {
		_, _, err := New(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(strings.Repeat("a", int(fails))))), Token{})
		if err == nil {
			t.Errorf("created a token from %d random bytes", fails)
		}
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	_, full := newToken(t)
	key, err := apikey.NewSecret(apikey.Random(), "ab12cd34")
	check.OK(t, err)
	s := string(full)
	for name, text := range map[string]string{
		"nothing": "", "the marker": marker, "truncated": s[:len(s)-1], "longer": s + "0", "a space": s[:len(s)-1] + " ",
		"another secret": s[:30] + string(other(s[30])) + s[31:], "another id": s[:12] + string(other(s[12])) + s[13:],
		"another checksum": s[:60] + string(other(s[60])), "upper case": strings.ToUpper(s), "an API key": string(key),
		"an API key with the marker": marker + string(key)[len(marker):], "a path": marker + "../users/ada1" + s[22:],
	} {
		if id, ok := Full(text).ID(); ok {
			t.Errorf("%s: %q: got ID %s", name, text, id)
		}
	}
	for _, id := range []ID{"", "token-", "key-ab12cd34", "token-AB12CD34EF56", "token-ab12cd34ef5", "token-ab12cd34ef567", "token-../users/a"} {
		if id.Valid() {
			t.Errorf("%q is accepted as an ID", id)
		}
	}
}

func other(c byte) byte {
	if c == 'a' {
		return 'b'
	}
	return 'a'
}

func TestTokenIsValidUntilExpiry(t *testing.T) {
	t.Parallel()
	token, full := newToken(t)
	_, another := newToken(t)
	tests := []struct {
		name string
		full Full
		at   time.Time
		want bool
	}{
		{"it", full, noon(), true},
		{"just before it expires", full, token.ExpiresAt.Add(-1), true},
		{"its end", full, token.ExpiresAt, false},
		{"another", another, noon(), false},
		{"nothing", "", noon(), false},
	}
	for _, tt := range tests {
		if got := token.Opens(tt.full, tt.at); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

func TestLastUseIsUpdatedAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]bool{0: false, 5*time.Minute - 1: false, 5 * time.Minute: true, time.Hour: true, -time.Hour: false} {
		if got := (Token{LastUsed: noon()}).UseDue(noon().Add(since)); got != want {
			t.Errorf("%s after the last use: got %t", since, got)
		}
	}
	if !(Token{}).UseDue(noon()) {
		t.Error("the first use is not due")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want string
		code problem.Code
	}{
		{"2026-03-01T12:00:00.000001Z", "2026-03-01T12:00:00.000001Z", ""},
		{"2026-03-02T12:00:00+02:00", "2026-03-02T10:00:00Z", ""},
		{"2027-03-02T12:00:00Z", "2027-03-02T12:00:00Z", ""},
		{"2027-03-02T12:00:00.000001Z", "", problem.InvalidExpiry},
		{"9999-12-31T23:59:59-01:00", "", problem.InvalidExpiry},
		{"2026-03-01T12:00:00Z", "", problem.ExpiryInPast},
		{"0001-01-01T00:00:00Z", "", problem.ExpiryInPast},
		{"2026-03-02", "", problem.InvalidExpiry},
		{"2026-03-02T1:00:00Z", "", problem.InvalidExpiry},
		{"90d", "", problem.InvalidExpiry},
		{"", "", problem.InvalidExpiry},
	}
	for _, tt := range tests {
		got, err := Expiry(&tt.text, noon())
		if tt.code != "" {
			if !problem.Is(err, tt.code) {
				t.Errorf("%q: %v, want %s", tt.text, err, tt.code)
			}
			continue
		}
		if err != nil || got.Format(time.RFC3339Nano) != tt.want {
			t.Errorf("%q: %s, %v", tt.text, got, err)
		}
	}
	if got, err := Expiry(nil, noon()); err != nil || !got.Equal(noon().AddDate(0, 0, 90)) {
		t.Errorf("without an expiry: got %s, %v", got, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if got := (Token{Name: "nightly"}).Actor(); got != "token:nightly" {
		t.Error(got)
	}
	for name, ok := range map[string]bool{"nightly": true, "ci-2": true, "": false, "Nightly": false, "token:nightly": false, "a b": false, "token-ab12cd34ef56": false, "token-nightly": true, strings.Repeat("a", 41): false} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !problem.Is(err, problem.InvalidName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzID(f *testing.F) {
	_, full, err := New(apikey.Random(), Token{})
	check.OK(f, err)
	f.Add(string(full))
	f.Add(marker)
	f.Add(string(full)[:60])
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := Full(s).ID()
		if !ok {
			return
		}
		if len(s) != length || !Claims(s) || !id.Valid() || !strings.Contains(s, strings.TrimPrefix(string(id), idPrefix)) {
			t.Errorf("%q: got ID %s", s, id)
		}
		if _, key := apikey.Parse([]byte(s)); key {
			t.Errorf("%q is also an API key", s)
		}
	})
}
