// Package program knows who else looks for keys: the secret-scanning programs that the
// operator of the installation trusts, by the keys with which they sign what they find.
//
// A program publishes its keys at an address, as GitHub's does: a JSON object whose
// public_keys are a list of {key_identifier, key, is_current}, where key is an ECDSA key on
// P-256 in PEM. Every key of the list counts, current or not; one that the list has no more
// is withdrawn, and counts for nothing an hour later at most ([life]).
//
// Whoever makes up identifiers has the lists read again once in half a minute, however many
// they make up. A list that cannot be read is not a list without the key: the caller is told
// that it cannot be known now, so that a program tries again and nothing it found is lost.
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
	// life is for how long a list is good after it was read.
	life = time.Hour

	// again is the least time from one reading of a list to the next.
	again = 30 * time.Second

	// maxIdentifier and maxSignature bound what a call says of its signature, in bytes.
	maxIdentifier = 256
	maxSignature  = 256
)

// Program is one that is trusted.
type Program struct {
	Name string // a label, e.g. "github"
	Keys string // where it publishes its keys, e.g. "https://api.github.com/meta/public_keys/secret_scanning"
}

// List is what LEAK_PROGRAMS says: NAME=URL, with commas between.
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
			return fmt.Errorf("the keys of %s: %w", name, err)
		}
		*l = append(*l, Program{name, address})
	}
	return nil
}

// Keys are those of all programs, as far as they are known.
type Keys struct {
	books  []*book
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
}

// book is the list of one program.
type book struct {
	Program

	turn chan struct{} // holds one while somebody looks at what follows
	keys map[string]*ecdsa.PublicKey
	read time.Time // when keys were; zero before the first time
	last time.Time // when it was tried last
	lost error     // why that failed
}

// New makes the keys of programs, none of which is read before it is needed.
func New(list List, log *slog.Logger, now func() time.Time) *Keys {
	k := &Keys{log: log, now: now, client: outbound.Client(http.DefaultTransport)}
	for _, p := range list {
		k.books = append(k.books, &book{Program: p, turn: make(chan struct{}, 1)})
	}
	return k
}

// Key is one that a program signs with.
type Key struct {
	Program string // its name
	public  *ecdsa.PublicKey
}

// Find gives the key with an identifier. Problems: unauthenticated where no program has it;
// unavailable where that cannot be known now.
func (k *Keys) Find(ctx context.Context, identifier string) (Key, error) {
	var lost error
	for _, b := range k.books {
		public, err := b.find(ctx, k, identifier)
		if public != nil {
			return Key{Program: b.Name, public: public}, nil
		}
		lost = errors.Join(lost, err)
	}
	if lost != nil {
		return Key{}, problem.Of(problem.Unavailable).Because(lost)
	}
	return Key{}, problem.Of(problem.Unauthenticated)
}

// find gives a key, or nil; an error says that it could not be looked for.
func (b *book) find(ctx context.Context, k *Keys, identifier string) (*ecdsa.PublicKey, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := k.now()
	if !b.read.IsZero() && now.Sub(b.read) >= life {
		b.keys, b.read = nil, time.Time{}
	}
	public := b.keys[identifier]
	if public != nil || !b.last.IsZero() && now.Sub(b.last) < again {
		return public, b.lost
	}
	keys, err := k.fetch(ctx, b.Keys)
	b.last, b.lost = now, err
	if err != nil {
		b.lost = fmt.Errorf("read the keys of %s: %w", b.Name, err)
		k.log.WarnContext(ctx, "read program keys failed", "program", b.Name, "error", err)
		return nil, b.lost
	}
	b.keys, b.read = keys, now
	return b.keys[identifier], nil
}

// fetch reads a list. It goes on when the caller hangs up: others wait for it.
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
	defer func() { _ = res.Body.Close() }() // what was needed of it is read
	return parse(res.Body)
}

// parse reads a list. A key of another kind than those that sign here is left out.
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
		return nil, errors.New("it holds no key that could sign")
	}
	return keys, nil
}

// Headers of a call: which key signs it, and the signature.
const (
	IdentifierHeader = "Github-Public-Key-Identifier"
	SignatureHeader  = "Github-Public-Key-Signature"
)

// Claim is what a call says of its signature.
type Claim struct {
	Identifier string // of the key
	signature  []byte // ASN.1
}

// ClaimOf reads a call's claim; ok is false where it makes none, or more than one.
func ClaimOf(h http.Header) (c Claim, ok bool) {
	identifiers, signatures := h.Values(IdentifierHeader), h.Values(SignatureHeader)
	if len(identifiers) != 1 || len(signatures) != 1 || len(identifiers[0]) > maxIdentifier || len(signatures[0]) > maxSignature {
		return Claim{}, false
	}
	signature, err := base64.StdEncoding.DecodeString(signatures[0])
	return Claim{identifiers[0], signature}, err == nil && identifiers[0] != "" && len(signature) > 0
}

// Signs tells whether a claim is of this key and this body.
func (k Key) Signs(c Claim, body []byte) bool {
	sum := sha256.Sum256(body)
	return ecdsa.VerifyASN1(k.public, sum[:], c.signature)
}
