package identity

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

type clock struct{ t time.Time }

func newClock() *clock { return &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func writeKeys(t testing.TB, dir string, kids ...string) {
	t.Helper()
	for _, kid := range kids {
		check.OK(t, WriteKeyPair(dir, kid))
	}
}

func testKeyring(t testing.TB, c *clock, kids ...string) *Keyring {
	t.Helper()
	dir := t.TempDir()
	writeKeys(t, dir, kids...)
	k, err := openKeyring(dir, c.now)
	check.OK(t, err)
	return k
}

func verifierOnly(t testing.TB, c *clock, of *Keyring) *Keyring {
	t.Helper()
	dir := t.TempDir()
	copyKeys(t, of.dir, dir, "*"+publicSuffix)
	k, err := openKeyring(dir, c.now)
	check.OK(t, err)
	return k
}

func copyKeys(t testing.TB, from, to, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, pattern))
	check.OK(t, err)
	for _, f := range files {
		content, err := os.ReadFile(f)
		check.OK(t, err)
		check.OK(t, os.WriteFile(filepath.Join(to, filepath.Base(f)), content, 0o600))
	}
}

func remove(t testing.TB, dir, kid string) {
	t.Helper()
	for _, suffix := range []string{publicSuffix, privateSuffix} {
		check.OK(t, os.Remove(filepath.Join(dir, kid+suffix)))
	}
}

func sign(t testing.TB, k *Keyring, now time.Time) Token {
	t.Helper()
	token, err := k.Sign(NewSession(Caller{Username: "ada"}, 1, now))
	check.OK(t, err)
	return token
}

func wantCode(t testing.TB, err error, code problem.Code) {
	t.Helper()
	if !problem.Is(err, code) {
		t.Fatalf("got error %v, want the problem %s", err, code)
	}
}

func TestNewestKeySigns(t *testing.T) {
	t.Parallel()
	k := testKeyring(t, newClock(), "2026-01", "2026-03", "2026-02")
	_, kid, err := k.signer()
	if err != nil || kid != "2026-03" {
		t.Fatalf("got signer %q, %v; want 2026-03", kid, err)
	}
}

func TestVerifierCannotSign(t *testing.T) {
	t.Parallel()
	c := newClock()
	signer := testKeyring(t, c, "a")
	verifier := verifierOnly(t, c, signer)
	if _, err := verifier.Verify(sign(t, signer, c.now())); err != nil {
		t.Errorf("verify: %v", err)
	}
	if _, err := verifier.Sign(NewSession(Caller{Username: "ada"}, 1, c.now())); err == nil {
		t.Error("a keyring without private keys signed a session")
	}
}

func TestRotationNeedsNoRestart(t *testing.T) {
	t.Parallel()
	c := newClock()
	signer := testKeyring(t, c, "a")
	verifier := verifierOnly(t, c, signer)
	old := sign(t, signer, c.now())

	writeKeys(t, signer.dir, "b")
	copyKeys(t, signer.dir, verifier.dir, "b"+publicSuffix)
	c.advance(keysMaxAge)
	young := sign(t, signer, c.now())
	for name, token := range map[string]Token{"old": old, "young": young} {
		if _, err := verifier.Verify(token); err != nil {
			t.Errorf("%s key: %v", name, err)
		}
	}
	if _, kid, _ := signer.signer(); kid != "b" {
		t.Errorf("got signer %q, want b", kid)
	}

	remove(t, signer.dir, "a")
	c.advance(keysMaxAge)
	_, err := signer.Verify(old)
	wantCode(t, err, problem.Unauthenticated)
}

func TestUnknownKidReadsAgainButNotTooOften(t *testing.T) {
	t.Parallel()
	c := newClock()
	signer := testKeyring(t, c, "a")
	verifier := verifierOnly(t, c, signer)
	writeKeys(t, signer.dir, "b")
	c.advance(keysMaxAge)
	token := sign(t, signer, c.now())
	_, err := verifier.Verify(token) // reads the directory, which lacks b
	wantCode(t, err, problem.Unauthenticated)
	copyKeys(t, signer.dir, verifier.dir, "b"+publicSuffix)
	c.advance(keysMinAge - 1)
	_, err = verifier.Verify(token)
	wantCode(t, err, problem.Unauthenticated)
	c.advance(1)
	if _, err := verifier.Verify(token); err != nil {
		t.Fatalf("new key after %s: %v", keysMinAge, err)
	}
}

func TestBrokenDirectoryKeepsKeysForAWhile(t *testing.T) {
	t.Parallel()
	c := newClock()
	k := testKeyring(t, c, "a")
	token := sign(t, k, c.now())
	bad := filepath.Join(k.dir, "b"+publicSuffix)
	check.OK(t, os.WriteFile(bad, []byte("half a key"), 0o600))
	c.advance(keysMaxAge)
	if _, err := k.Verify(token); err != nil {
		t.Fatalf("known key with a broken directory: %v", err)
	}
	foreign := sign(t, testKeyring(t, c, "zz"), c.now())
	_, err := k.Verify(foreign)
	wantCode(t, err, problem.Unavailable)
	c.advance(keysStale)
	_, err = k.Verify(token)
	wantCode(t, err, problem.Unavailable)
	check.OK(t, os.Remove(bad))
	c.advance(keysMinAge)
	if _, err := k.Verify(token); err != nil {
		t.Fatalf("after the directory is repaired: %v", err)
	}
}
