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
	maxKid        = 64 // characters
)

type keySet struct {
	public    map[string]ed25519.PublicKey
	signer    ed25519.PrivateKey // nil if there is no private key
	signerKid string
}

// readKeys reads all keys in a directory. It fails if one file is invalid: without that key,
// valid sessions would be rejected.
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

// add reads a key file. It ignores other names, such as "..data" in a mounted Secret.
func (s *keySet) add(dir, name string) error {
	kid, private := strings.CutSuffix(name, privateSuffix)
	if !private {
		var public bool
		if kid, public = strings.CutSuffix(name, publicSuffix); !public {
			return nil
		}
	}
	if !validKid(kid) {
		return errors.New("a key's name must have 1 to 64 characters [0-9A-Za-z._-] and start with a letter or digit")
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

func (s *keySet) accept(kid string, key ed25519.PublicKey) error {
	if other, ok := s.public[kid]; ok && !other.Equal(key) {
		return errors.New("the public and the private key are not a pair")
	}
	s.public[kid] = key
	return nil
}

// parsePublic also accepts a certificate, because Helm can generate certificates but not public
// keys. It ignores the certificate's dates, names and signature.
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
		return nil, errors.New("not a PKCS#8 private key") // the cause could contain key material
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return key, nil
}

// WriteKeyPair generates "{kid}.key" and "{kid}.pub" in a directory. Kids should sort by age,
// e.g. "2026-01-31". It overwrites nothing.
func WriteKeyPair(dir, kid string) error {
	if !validKid(kid) {
		return fmt.Errorf("write session key %q: not a key id", kid)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("generate session key: %w", err)
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
