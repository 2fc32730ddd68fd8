package identity

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

// published is a test vector of the reference implementation: version 0x13, t=2, m=65536, p=1,
// password "password", salt "somesalt".
const published = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

func newHasher(t testing.TB) *Hasher {
	t.Helper()
	h, err := NewHasher(2)
	check.OK(t, err)
	return h
}

func TestHashAndVerify(t *testing.T) {
	t.Parallel()
	h := newHasher(t)
	hash, err := h.Hash(t.Context(), "correct horse battery")
	check.OK(t, err)
	again, err := h.Hash(t.Context(), "correct horse battery")
	check.OK(t, err)
	if hash == again {
		t.Error("two hashes of a password are equal: want a salt")
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(hash, "horse") {
		t.Errorf("hash: got %q", hash)
	}
	tests := []struct {
		name, hash, password string
		want                 bool
	}{
		{"right", hash, "correct horse battery", true},
		{"wrong", hash, "correct horse battery ", false},
		{"empty", hash, "", false},
		{"no such user", "", "correct horse battery", false},
		{"no such user, no password", "", "", false},
		{"the published vector", published, "password", true},
		{"the published vector, wrong", published, "passwore", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := h.Verify(t.Context(), Known, tt.hash, tt.password)
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestVerifyRefusesAStoredHashInDoubt(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, hash string }{
		{"plain text", "password"},
		{"another algorithm", strings.Replace(published, "argon2id", "argon2i", 1)},
		{"another version", strings.Replace(published, "v=19", "v=16", 1)},
		{"too much memory", strings.Replace(published, "m=65536", "m=4194304", 1)},
		{"too little memory", strings.Replace(published, "m=65536", "m=1", 1)},
		{"no passes", strings.Replace(published, "t=2", "t=0", 1)},
		{"too many passes", strings.Replace(published, "t=2", "t=1000", 1)},
		{"no threads", strings.Replace(published, "p=1", "p=0", 1)},
		{"threads past a byte", strings.Replace(published, "p=1", "p=257", 1)},
		{"negative", strings.Replace(published, "t=2", "t=-2", 1)},
		{"another spelling", strings.Replace(published, "t=2", "t=02", 1)},
		{"no sum", published[:strings.LastIndexByte(published, '$')+1]},
		{"no salt", strings.Replace(published, "c29tZXNhbHQ", "", 1)},
		{"padded", published + "="},
		{"one part more", published + "$"},
		{"a line after it", published + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if ok, err := newHasher(t).Verify(t.Context(), Known, tt.hash, "password"); ok || err == nil {
				t.Errorf("got %v, %v; want an error", ok, err)
			}
		})
	}
}

func TestHasherIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := NewHasher(0); err == nil {
		t.Error("accepted a hasher without concurrent hashes")
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(t)
		for range 2 {
			check.OK(t, h.queue.enter(t.Context(), Known))
		}
		_, err := h.Verify(t.Context(), Known, "", "x")
		wantCode(t, err, problem.Unavailable)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = h.Hash(ctx, "x")
		wantCode(t, err, problem.Unavailable)

		h.queue.leave()
		if _, err := h.Hash(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if h.queue.free != 1 {
			t.Errorf("free places after a hash: got %d, want 1", h.queue.free)
		}
	})
}

func FuzzParsePHC(f *testing.F) {
	f.Add(published)
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAA$AAAAAAAAAAA")
	f.Add("$$$$$")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePHC(s)
		if err != nil {
			return
		}
		if !p.cost.valid() || p.String() != s {
			t.Errorf("%q: got %+v", s, p)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	h := newHasher(b)
	for b.Loop() {
		if _, err := h.Verify(b.Context(), Unknown, "", "correct horse battery"); err != nil {
			b.Fatal(err)
		}
	}
}
