package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	publicSuffix  = ".pub"
	privateSuffix = ".key"
	maxKid        = 64 // characters of a key id
)

// keySet is what a keyring's directory held when it was read.
type keySet struct {
	public    map[string]ed25519.PublicKey
	signer    ed25519.PrivateKey // nil where nothing is signed
	signerKid string
}

// readKeys reads every key of a directory. One bad file fails the whole: half a
// set would sign people out.
func readKeys(dir string) (keySet, error) {
	set := keySet{public: map[string]ed25519.PublicKey{}}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return keySet{}, fmt.Errorf("list session keys: %w", err)
	}
	for _, e := range entries {
		if err := set.add(dir, e.Name()); err != nil {
			return keySet{}, fmt.Errorf("session key %s: %w", e.Name(), err)
		}
	}
	if len(set.public) == 0 {
		return keySet{}, fmt.Errorf("no session keys in %s", dir)
	}
	return set, nil
}

// add takes in the file called name if it is a key's. Other names are left alone:
// a mounted Secret has "..data" and its like beside the keys.
func (s *keySet) add(dir, name string) error {
	kid, private := strings.CutSuffix(name, privateSuffix)
	if !private {
		var public bool
		if kid, public = strings.CutSuffix(name, publicSuffix); !public {
			return nil
		}
	}
	if !validKid(kid) {
		return errors.New("a key's name is 1 to 64 of [0-9A-Za-z._-] and starts with a letter or digit")
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if !private {
		key, err := parsePublic(content)
		if err != nil {
			return err
		}
		return s.accept(kid, key)
	}
	key, err := parsePrivate(content)
	if err != nil {
		return err
	}
	if kid > s.signerKid {
		s.signer, s.signerKid = key, kid
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return s.accept(kid, public)
}

// accept notes a public key; the two files of a pair must belong together.
func (s *keySet) accept(kid string, key ed25519.PublicKey) error {
	if other, ok := s.public[kid]; ok && !other.Equal(key) {
		return errors.New("the public and the private key are not a pair")
	}
	s.public[kid] = key
	return nil
}

// parsePublic reads an Ed25519 key from a PEM public key, or from a PEM certificate:
// what makes a Secret without a shell (Helm's genSelfSignedCertWithKey) has no
// function for a public key alone. Of the certificate only the key counts. Its
// dates, names and signature are not looked at: whoever may write the Secret is
// believed for either form, and a key's end is its removal.
func parsePublic(content []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("not a PEM public key")
	}
	parsed, err := publicOf(block)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return key, nil
}

// publicOf is the key of a PEM block, of any kind that crypto/x509 knows.
func publicOf(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	}
	return nil, errors.New("not a PEM public key")
}

func parsePrivate(content []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("not a PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a PKCS#8 private key") // the cause could quote key material
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return key, nil
}

// WriteKeyPair draws a key and writes "{kid}.pub" and then "{kid}.key" to a
// directory, as [OpenKeyring] reads them. Kids sort by age, so "2026-01-31" is a
// good one. It never overwrites a key.
func WriteKeyPair(dir, kid string) error {
	if !validKid(kid) {
		return fmt.Errorf("write session key %q: not a key id", kid)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("draw session key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return fmt.Errorf("encode session key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("encode session key: %w", err)
	}
	base := filepath.Join(dir, kid)
	if err := writeNew(base+publicSuffix, 0o644, "PUBLIC KEY", publicDER); err != nil {
		return err
	}
	return writeNew(base+privateSuffix, 0o600, "PRIVATE KEY", privateDER)
}

// writeNew writes a PEM file under another name and then links it in place, so
// that a keyring which looks meanwhile never reads half a key.
func writeNew(path string, mode os.FileMode, kind string, der []byte) (err error) {
	draft := path + ".new"
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(draft, content, mode); err != nil {
		return fmt.Errorf("write session key: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(draft)) }()
	if err := os.Link(draft, path); err != nil {
		return fmt.Errorf("write session key: %w", err)
	}
	return nil
}

func validKid(kid string) bool {
	if kid == "" || len(kid) > maxKid {
		return false
	}
	for i, c := range []byte(kid) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}
