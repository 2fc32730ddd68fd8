package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestOpenKeyringRefuses(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	ecDER, err := x509.MarshalPKIXPublicKey(&ec.PublicKey)
	check.OK(t, err)
	ecPrivate, err := x509.MarshalPKCS8PrivateKey(ec)
	check.OK(t, err)
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	tests := []struct {
		name, file, content, want string
	}{
		{"an empty directory", "", "", "no session keys"},
		{"only other files", "README", "hello", "no session keys"},
		{"no PEM", "a.pub", "hello", "not a PEM public key"},
		{"another PEM", "a.pub", encode("EC PARAMETERS", ecDER), "not a PEM public key"},
		{"a bad certificate", "a.pub", encode("CERTIFICATE", ecDER), "malformed"},
		{"an elliptic curve certificate", "a.pub", selfSigned(t, ec), "not an Ed25519 key"},
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
				check.OK(t, os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.content), 0o600))
			}
			_, err := OpenKeyring(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := OpenKeyring(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that does not exist was opened")
	}
}

func selfSigned(t *testing.T, key crypto.Signer) string {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sluice"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// The certificate may have expired, but must match the private key.
func TestOpenKeyringTakesACertificateAsPublicKey(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	writeKeys(t, dir, "a")
	content, err := os.ReadFile(filepath.Join(dir, "a"+privateSuffix))
	check.OK(t, err)
	key, err := parsePrivate(content)
	check.OK(t, err)
	write := func(kid string, key crypto.Signer) {
		check.OK(t, os.WriteFile(filepath.Join(dir, kid+publicSuffix), []byte(selfSigned(t, key)), 0o600))
	}
	write("a", key)
	signing, err := openKeyring(dir, c.now)
	check.OK(t, err)
	token := sign(t, signing, c.now())
	check.OK(t, os.Remove(filepath.Join(dir, "a"+privateSuffix)))
	verifying, err := openKeyring(dir, c.now)
	check.OK(t, err)
	if _, err := verifying.Verify(token); err != nil {
		t.Errorf("the certificate's key does not verify: %v", err)
	}
	_, another, err := ed25519.GenerateKey(rand.Reader)
	check.OK(t, err)
	writeKeys(t, dir, "b")
	write("b", another)
	if _, err := OpenKeyring(dir); err == nil || !strings.Contains(err.Error(), "not a pair") {
		t.Errorf("got error %v, want one about the pair", err)
	}
}

func TestOpenKeyringRefusesAPairThatIsNone(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	writeKeys(t, one, "a")
	writeKeys(t, two, "a")
	copyKeys(t, two, one, "a"+privateSuffix)
	if _, err := OpenKeyring(one); err == nil || !strings.Contains(err.Error(), "not a pair") {
		t.Errorf("got error %v, want one about the pair", err)
	}
}

// A mounted Secret is a directory of links to "..data", a link that changes with the Secret.
func TestOpenKeyringOnAMountedSecret(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	data := filepath.Join(mount, "..2026_03_01")
	check.OK(t, os.Mkdir(data, 0o700))
	writeKeys(t, data, "a")
	for _, link := range [][2]string{{"..2026_03_01", "..data"}, {"..data/a.pub", "a.pub"}, {"..data/a.key", "a.key"}} {
		check.OK(t, os.Symlink(link[0], filepath.Join(mount, link[1])))
	}
	c := newClock()
	k, err := openKeyring(mount, c.now)
	check.OK(t, err)
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
			t.Errorf("%q was accepted as a kid", kid)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "a"+privateSuffix))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("private key: got mode %v, %v; want 0600", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("directory: got %v, %v; want only the pair", entries, err)
	}
}
