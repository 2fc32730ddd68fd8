package identity

import (
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// keysMinAge is the shortest interval between reads of the directory: clients can cause reads
	// with unknown kids.
	keysMinAge = 2 * time.Second
	// keysMaxAge is the age after which keys are read again.
	keysMaxAge = time.Minute
	// keysStale is the maximum age of keys if the directory cannot be read.
	keysStale = 10 * time.Minute
)

var (
	errUnknownKid = errors.New("signed with an unknown key")
	errNoSigner   = errors.New("no private session key")
)

// Keyring holds the keys that sign and verify sessions. It reads the directory again for an
// unknown kid, and once a minute.
type Keyring struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	keys  keySet
	read  time.Time // last successful read
	tried time.Time
	err   error
}

// OpenKeyring reads the keys in a directory ($SESSION_KEYS_DIR). It returns an error if there are
// none.
func OpenKeyring(dir string) (*Keyring, error) {
	return openKeyring(dir, time.Now)
}

func openKeyring(dir string, now func() time.Time) (*Keyring, error) {
	k := &Keyring{dir: dir, now: now}
	k.reload(now())
	return k, k.err
}

// verifier returns a public key. The kid comes from the client and never becomes part of a path.
func (k *Keyring) verifier(kid string) (ed25519.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if err := k.refresh(now); err != nil {
		return nil, err
	}
	key, ok := k.keys.public[kid]
	if !ok && now.Sub(k.tried) >= keysMinAge {
		k.reload(now)
		key, ok = k.keys.public[kid]
	}
	switch {
	case ok:
		return key, nil
	case k.err != nil: // the key may exist
		return nil, problem.FromCode(problem.Unavailable).WithCause(k.err)
	}
	return nil, errUnknownKid
}

func (k *Keyring) signer() (ed25519.PrivateKey, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(k.now()); err != nil {
		return nil, "", err
	}
	if k.keys.signer == nil {
		return nil, "", errNoSigner
	}
	return k.keys.signer, k.keys.signerKid, nil
}

func (k *Keyring) refresh(now time.Time) error {
	due := now.Sub(k.read) >= keysMaxAge && now.Sub(k.tried) >= keysMinAge
	if due {
		k.reload(now)
	}
	if now.Sub(k.read) >= keysStale {
		return problem.FromCode(problem.Unavailable).WithCause(k.err)
	}
	return nil
}

func (k *Keyring) reload(now time.Time) {
	k.tried = now
	keys, err := readKeys(k.dir)
	k.err = err
	if err == nil {
		k.keys, k.read = keys, now
	}
}
