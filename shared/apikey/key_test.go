package apikey

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestIDPrefix(t *testing.T) {
	t.Parallel()
	if p, ok := IDOf("ab12cd34").Prefix(); !ok || p != "ab12cd34" {
		t.Errorf("prefix: got %q, %t, want ab12cd34", p, ok)
	}
	for _, id := range []ID{"", "key-", "key-ab12cd3", "key-ab12cd345", "key-AB12CD34", "ab12cd34", "key-ab12/d34", "KEY-ab12cd34", "canary.checker-0", "key-ab12cd3é"} {
		if p, ok := id.Prefix(); ok {
			t.Errorf("ID %q: got prefix %q, want none", id, p)
		}
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	at := noon()
	k := Key{ExpiresAt: at}
	if k.Expired(at.Add(-1)) || !k.Expired(at) || !k.Expired(at.Add(1)) {
		t.Error("a key must expire exactly at its expiry")
	}
	if (Key{}).Expired(at.AddDate(1000, 0, 0)) {
		t.Error("a key without expiry must never expire")
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	first, second, third := Hash{1}, Hash{2}, Hash{3}
	at := noon()
	live := Key{Prefix: "ab12cd34", Name: "ci", Status: Active, Secret: first, CreatedAt: at.Add(-time.Hour)}
	inGrace := Key{Status: Active, Secret: second, Previous: first, PreviousUntil: at.Add(time.Hour)}
	tests := []struct {
		name  string
		key   Key
		grace time.Duration
		want  Key
		code  problem.Code
	}{
		{
			name: "both secrets live for the grace", key: live, grace: time.Hour,
			want: Key{Prefix: "ab12cd34", Name: "ci", Status: Active, Secret: third, Previous: first, PreviousUntil: at.Add(time.Hour), CreatedAt: at.Add(-time.Hour), UpdatedAt: at},
		},
		{
			name: "no grace ends the old one at once", key: live, grace: 0,
			want: Key{Prefix: "ab12cd34", Name: "ci", Status: Active, Secret: third, CreatedAt: at.Add(-time.Hour), UpdatedAt: at},
		},
		{
			name: "never three", key: inGrace, grace: time.Minute,
			want: Key{Status: Active, Secret: third, Previous: second, PreviousUntil: at.Add(time.Minute), UpdatedAt: at},
		},
		{
			name: "no grace in grace leaves one", key: inGrace, grace: 0,
			want: Key{Status: Active, Secret: third, UpdatedAt: at},
		},
		{
			name: "a disabled key stays disabled", key: Key{Status: Disabled, Secret: first}, grace: MaxGrace,
			want: Key{Status: Disabled, Secret: third, Previous: first, PreviousUntil: at.Add(MaxGrace), UpdatedAt: at},
		},
		{name: "revoked", key: Key{Status: Revoked}, code: problem.KeyRevoked},
		{name: "expired", key: Key{Status: Active, ExpiresAt: at}, code: problem.KeyExpired},
		{name: "negative grace", key: live, grace: -1, code: problem.InvalidGrace},
		{name: "grace too long", key: live, grace: MaxGrace + 1, code: problem.InvalidGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.key.Rotate(third, tt.grace, at)
			check.Problem(t, err, tt.code)
			check.Equal(t, "rotated", tt.want, got)
		})
	}
}

func TestHasPrevious(t *testing.T) {
	t.Parallel()
	at := noon()
	k := Key{PreviousUntil: at}
	if !k.HasPrevious(at.Add(-1)) || k.HasPrevious(at) || (Key{}).HasPrevious(at) {
		t.Error("the previous secret must be valid exactly until PreviousUntil")
	}
}

func TestWithStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to Status
		code     problem.Code
	}{
		{Active, Disabled, ""},
		{Active, Active, ""},
		{Disabled, Active, ""},
		{Active, Revoked, problem.InvalidStatus},
		{Active, "expired", problem.InvalidStatus},
		{Active, "", problem.InvalidStatus},
		{Active, "ACTIVE", problem.InvalidStatus},
		{Revoked, Active, problem.KeyRevoked},
		{Revoked, Disabled, problem.KeyRevoked},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s to %s", tt.from, tt.to), func(t *testing.T) {
			t.Parallel()
			got, err := Key{Status: tt.from}.WithStatus(tt.to)
			check.Problem(t, err, tt.code)
			if err == nil && got.Status != tt.to {
				t.Errorf("got status %s", got.Status)
			}
		})
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	at := noon()
	once := Key{Status: Disabled, Secret: Hash{1}}.Revoke(at, "ada")
	check.Equal(t, "revoked", Key{Status: Revoked, Secret: Hash{1}, UpdatedAt: at, RevokedBy: "ada"}, once)
	check.Equal(t, "revoked again", once, once.Revoke(at.Add(time.Hour), "bob"))
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		code     problem.Code
	}{
		{"none", "", ""},
		{"plain", "ci pipeline #1", ""},
		{"longest in characters", strings.Repeat("é", 100), ""},
		{"too long", strings.Repeat("a", 101), problem.InvalidName},
		{"line feed", "a\nb", problem.InvalidName},
		{"carriage return", "a\rb", problem.InvalidName},
		{"NUL", "a\x00b", problem.InvalidName},
		{"escape", "a\x1b[31m", problem.InvalidName},
		{"delete", "a\x7f", problem.InvalidName},
		{"right-to-left override", "a\u202eb", problem.InvalidName},
		{"zero width space", "a\u200bb", problem.InvalidName},
		{"not UTF-8", "a\xff", problem.InvalidName},
		{"space before", " a", problem.InvalidName},
		{"space after", "a ", problem.InvalidName},
		{"only a space", " ", problem.InvalidName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Problem(t, CheckName(tt.in), tt.code)
		})
	}
}

func TestCheckExpiry(t *testing.T) {
	t.Parallel()
	at := noon()
	check.Problem(t, CheckExpiry(time.Time{}, at), "")
	check.Problem(t, CheckExpiry(at.Add(1), at), "")
	check.Problem(t, CheckExpiry(at, at), problem.ExpiryInPast)
	check.Problem(t, CheckExpiry(at.Add(-1), at), problem.ExpiryInPast)
}

func TestWithoutApp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stored, shown []string
		kind          ScopeKind
	}{
		{[]string{"a", "b"}, []string{"b"}, SomeApps},
		{[]string{"a"}, []string{}, NoApps},
	} {
		k := Key{Apps: tt.stored}.WithoutApp("a", time.Now())
		shown, kind := ShownScope(k.Apps)
		if !slices.Equal(shown, tt.shown) || kind != tt.kind || len(k.Apps) == 0 {
			t.Errorf("%q without a: got %q stored as %q, %s", tt.stored, shown, k.Apps, kind)
		}
	}
	if shown, kind := ShownScope(nil); len(shown) > 0 || kind != AllApps {
		t.Errorf("empty scope: got %s of %q, want all", kind, shown)
	}
}

func TestCheckTags(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 32)
	for _, tt := range []struct {
		tags, want []string
		ok         bool
	}{
		{nil, nil, true},
		{[]string{}, nil, true},
		{[]string{"eu", "-", "2026", long}, []string{"-", "2026", long, "eu"}, true},
		{[]string{"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, true},
		{[]string{"10", "9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}, nil, false},
		{[]string{"a", "b", "a"}, nil, false},
		{[]string{""}, nil, false},
		{[]string{long + "a"}, nil, false},
		{[]string{"A"}, nil, false},
		{[]string{"a_b"}, nil, false},
		{[]string{"é"}, nil, false},
		{[]string{"a\n"}, nil, false},
	} {
		got, err := CheckTags(tt.tags)
		if !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || (err == nil) != tt.ok {
			t.Errorf("%q: got %q, error %v, want %q", tt.tags, got, err, tt.want)
		}
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	var full, over []string
	for i := range MaxApps + 1 {
		over = append(over, fmt.Sprintf("app-%03d", i))
	}
	full = over[:MaxApps]
	tests := []struct {
		name     string
		in, want []string
		code     problem.Code
	}{
		{name: "none"},
		{name: "sorted", in: []string{"b", "a"}, want: []string{"a", "b"}},
		{name: "as many as fit", in: full, want: full},
		{name: "one too many", in: over, code: problem.InvalidScope},
		{name: "doubles", in: []string{"b", "a", "b"}, code: problem.InvalidScope},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := append([]string(nil), tt.in...)
			got, err := Scope(tt.in)
			check.Problem(t, err, tt.code)
			check.Equal(t, "scope", tt.want, got)
			if diff := cmp.Diff(in, append([]string(nil), tt.in...)); diff != "" {
				t.Errorf("Scope changed its input (-want +got):\n%s", diff)
			}
		})
	}
}

func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }

func TestHeaderName(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"Café 1", "Caf%C3%A9 1"},
		{"plain ASCII ~!", "plain ASCII ~!"},
		{"100%", "100%25"},
		{"%41", "%2541"},
		{"日本", "%E6%97%A5%E6%9C%AC"},
		{"a\r\nX-Evil: 1", "a%0D%0AX-Evil: 1"},
		{"\x00\x7f", "%00%7F"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			if got := HeaderName(tt.in); got != tt.want {
				t.Errorf("HeaderName(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// FuzzHeaderName verifies that the header is one line of visible ASCII, and that decoding restores
// the name.
func FuzzHeaderName(f *testing.F) {
	for _, s := range []string{"Café", "a\nb", "\xff", "100%", "%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		h := HeaderName(name)
		for _, c := range []byte(h) {
			if c < ' ' || c > '~' {
				t.Fatalf("HeaderName(%q) contains byte %#x", name, c)
			}
		}
		if CheckName(name) != nil || !utf8.ValidString(name) {
			return
		}
		w := httptest.NewRecorder()
		w.Header().Set("X-Service-Key-Name", h)
		w.WriteHeader(http.StatusOK)
		res := w.Result()
		defer func() { _ = res.Body.Close() }()
		if got := res.Header.Get("X-Service-Key-Name"); got != h {
			t.Fatalf("sent %q, received %q", h, got)
		}
		if back, err := url.PathUnescape(h); err != nil || back != name {
			t.Fatalf("decoded %q: got %q, %v", name, back, err)
		}
	})
}

func TestNewRequest(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for name, r := range map[string]Request{
		"one":             NewRequest("ada", "shop", "form-1", nil, at),
		"another name":    NewRequest("ada", "shop", "form-2", nil, at),
		"another caller":  NewRequest("bob", "shop", "form-1", nil, at),
		"another project": NewRequest("ada", "bank", "form-1", nil, at),
	} {
		if len(r.ID) != 64 || !r.At.Equal(at) {
			t.Errorf("%s: got %+v", name, r)
		}
		if other, taken := seen[r.ID]; taken {
			t.Errorf("%s: got the ID of %s", name, other)
		}
		seen[r.ID] = name
	}
	if r := NewRequest("ada", "shop", "form-1", nil, at.Add(time.Hour)); seen[r.ID] != "one" {
		t.Error("got another ID an hour later")
	}
	one, other := NewRequest("ada", "shop", "form-1", []byte("a"), at), NewRequest("ada", "shop", "form-1", []byte("b"), at)
	if one.ID != other.ID || one.Content == other.Content || len(one.Content) != 64 {
		t.Errorf("another content: got %+v after %+v, want the same ID", other, one)
	}
	if r := NewRequest("ada", "shop", "", nil, at); r.ID != "" {
		t.Errorf("without a name: got ID %s, want none", r.ID)
	}
}
