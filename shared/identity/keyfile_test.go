package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenKeyringRefuses(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKIXPublicKey(&ec.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	ecPrivate, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	tests := []struct {
		name, file, content, want string
	}{
		{"an empty directory", "", "", "no session keys"},
		{"only other files", "README", "hello", "no session keys"},
		{"no PEM", "a.pub", "hello", "not a PEM public key"},
		{"another PEM", "a.pub", encode("CERTIFICATE", ecDER), "not a PEM public key"},
		{"bad DER", "a.pub", encode("PUBLIC KEY", []byte("x")), "asn1"},
		{"an elliptic curve key", "a.pub", encode("PUBLIC KEY", ecDER), "not an Ed25519 key"},
		{"an elliptic curve private key", "a.key", encode("PRIVATE KEY", ecPrivate), "not an Ed25519 key"},
		{"bad private DER", "a.key", encode("PRIVATE KEY", []byte("x")), "not a PKCS#8"},
		{"private in the wrong file", "a.pub", encode("PRIVATE KEY", ecPrivate), "not a PEM public key"},
		{"no kid", ".pub", "hello", "a key's name"},
		{"a kid with a space", "a b.pub", "hello", "a key's name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := OpenKeyring(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := OpenKeyring(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that does not exist was opened")
	}
}

func TestOpenKeyringRefusesAPairThatIsNone(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	writeKeys(t, one, "a")
	writeKeys(t, two, "a")
	copyKeys(t, two, one, "a"+privateSuffix)
	if _, err := OpenKeyring(one); err == nil || !strings.Contains(err.Error(), "not a pair") {
		t.Errorf("error is %v, want one about the pair", err)
	}
}

// A mounted Secret is a directory of links into "..data", which is a link itself
// and is swapped when the Secret changes.
func TestOpenKeyringOnAMountedSecret(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	data := filepath.Join(mount, "..2026_03_01")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	writeKeys(t, data, "a")
	for _, link := range [][2]string{{"..2026_03_01", "..data"}, {"..data/a.pub", "a.pub"}, {"..data/a.key", "a.key"}} {
		if err := os.Symlink(link[0], filepath.Join(mount, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	c := newClock()
	k, err := openKeyring(mount, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Verify(sign(t, k, c.now())); err != nil {
		t.Fatal(err)
	}
}

func TestWriteKeyPair(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeKeys(t, dir, "a")
	if err := WriteKeyPair(dir, "a"); err == nil {
		t.Error("a key was overwritten")
	}
	for _, kid := range []string{"", "../a", "a/b", ".a", strings.Repeat("a", 65)} {
		if err := WriteKeyPair(dir, kid); err == nil {
			t.Errorf("%q was taken as a kid", kid)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "a"+privateSuffix))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key's mode is %v, %v; want 0600", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v; want the pair alone", entries, err)
	}
}
