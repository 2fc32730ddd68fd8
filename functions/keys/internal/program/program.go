// Package program verifies the signatures of trusted secret-scanning programs.
//
// A program publishes its public keys at a URL in the format of GitHub: a JSON object whose
// public_keys is a list of {key_identifier, key, is_current}, where key is an ECDSA P-256 key in
// PEM. All keys in the list are valid. A removed key is invalid after at most one hour
// ([lifetime]).
//
// Unknown identifiers cause at most one read per list in 30 seconds. If a list cannot be read, the
// problem is unavailable instead of unauthenticated, so that the program retries.
package program

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	lifetime   = time.Hour        // validity of a list after a read
	minRefresh = 30 * time.Second // interval between reads of a list

	maxIdentifier = 256 // bytes
	maxSignature  = 256 // bytes
)

// Program is a trusted program.
type Program struct {
	Name string // a label, e.g. "github"
	Keys string // URL of its public keys, e.g. "https://api.github.com/meta/public_keys/secret_scanning"
}

// List is the value of LEAK_PROGRAMS: comma-separated NAME=URL.
type List []Program

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for one := range strings.SplitSeq(string(text), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		name, address, _ := strings.Cut(one, "=")
		if !app.ValidLabel(name) {
			return fmt.Errorf("%q is not NAME=URL, with a name of a-z, 0-9 and hyphens", one)
		}
		if err := outbound.CheckAddress(address); err != nil {
			return fmt.Errorf("keys of %s: %w", name, err)
		}
		*l = append(*l, Program{name, address})
	}
	return nil
}

// Keys contains the known keys of all programs.
type Keys struct {
	lists  []*keyList
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
}

type keyList struct {
	Program

	turn chan struct{} // mutex of the following fields
	keys map[string]*ecdsa.PublicKey
	read time.Time // last successful read; zero before the first
	last time.Time // last attempt to read
	lost error     // error of the last attempt
}

// New returns the keys of programs, which are read on demand.
func New(list List, log *slog.Logger, now func() time.Time) *Keys {
	k := &Keys{log: log, now: now, client: outbound.Client(http.DefaultTransport)}
	for _, p := range list {
		k.lists = append(k.lists, &keyList{Program: p, turn: make(chan struct{}, 1)})
	}
	return k
}

// Key is a public key of a program.
type Key struct {
	Program string // name of the program
	public  *ecdsa.PublicKey
}

// Find returns the key with an identifier. It returns an unauthenticated problem if no program has
// the key, or an unavailable problem if a list cannot be read.
func (k *Keys) Find(ctx context.Context, identifier string) (Key, error) {
	var lost error
	for _, b := range k.lists {
		public, err := b.find(ctx, k, identifier)
		if public != nil {
			return Key{Program: b.Name, public: public}, nil
		}
		lost = errors.Join(lost, err)
	}
	if lost != nil {
		return Key{}, problem.FromCode(problem.Unavailable).WithCause(lost)
	}
	return Key{}, problem.FromCode(problem.Unauthenticated)
}

// find returns the key, or nil if the list does not contain it. It returns an error if the list
// cannot be read.
func (b *keyList) find(ctx context.Context, k *Keys, identifier string) (*ecdsa.PublicKey, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := k.now()
	if !b.read.IsZero() && now.Sub(b.read) >= lifetime {
		b.keys, b.read = nil, time.Time{}
	}
	public := b.keys[identifier]
	if public != nil || !b.last.IsZero() && now.Sub(b.last) < minRefresh {
		return public, b.lost
	}
	keys, err := k.fetch(ctx, b.Keys)
	b.last, b.lost = now, err
	if err != nil {
		b.lost = fmt.Errorf("read keys of %s: %w", b.Name, err)
		k.log.WarnContext(ctx, "read program keys failed", "program", b.Name, "error", err)
		return nil, b.lost
	}
	b.keys, b.read = keys, now
	return b.keys[identifier], nil
}

// fetch reads a list. It continues if the caller is gone, because others may wait for it.
func (k *Keys) fetch(ctx context.Context, address string) (map[string]*ecdsa.PublicKey, error) {
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	res, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return parse(res.Body)
}

func parse(body io.Reader) (map[string]*ecdsa.PublicKey, error) {
	var list struct {
		Keys []struct {
			Identifier string `json:"key_identifier"`
			Key        string `json:"key"`
		} `json:"public_keys"`
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return nil, err
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, one := range list.Keys {
		block, _ := pem.Decode([]byte(one.Key))
		if block == nil {
			continue
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := parsed.(*ecdsa.PublicKey)
		if err == nil && ok && public.Curve == elliptic.P256() && one.Identifier != "" {
			keys[one.Identifier] = public
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable key in the list")
	}
	return keys, nil
}

// The headers of a signed call.
const (
	IdentifierHeader = "Github-Public-Key-Identifier"
	SignatureHeader  = "Github-Public-Key-Signature"
)

// Claim contains the signature headers of a call.
type Claim struct {
	Identifier string // of the key
	signature  []byte // ASN.1
}

// ClaimOf returns the claim of a call. ok is false unless there is exactly one.
func ClaimOf(h http.Header) (c Claim, ok bool) {
	identifiers, signatures := h.Values(IdentifierHeader), h.Values(SignatureHeader)
	if len(identifiers) != 1 || len(signatures) != 1 || len(identifiers[0]) > maxIdentifier || len(signatures[0]) > maxSignature {
		return Claim{}, false
	}
	signature, err := base64.StdEncoding.DecodeString(signatures[0])
	return Claim{identifiers[0], signature}, err == nil && identifiers[0] != "" && len(signature) > 0
}

// Signs reports whether the claim is a valid signature of the body by this key.
func (k Key) Signs(c Claim, body []byte) bool {
	sum := sha256.Sum256(body)
	return ecdsa.VerifyASN1(k.public, sum[:], c.signature)
}
