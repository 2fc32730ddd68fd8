package identity

import (
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

const (
	// keysMinAge spaces reads that strangers can cause by sending unknown kids.
	keysMinAge = 2 * time.Second
	// keysMaxAge is how long a key that was taken away may still be accepted.
	keysMaxAge = time.Minute
	// keysStale ends trust in keys whose directory cannot be read any more.
	keysStale = 10 * time.Minute
)

var (
	errUnknownKid = errors.New("signed with an unknown key")
	errNoSigner   = errors.New("there is no private session key to sign with")
)

// Keyring holds the keys that sign and verify sessions, and keeps up with their
// directory: it is read again when a token names a key that is not known (at
// most every 2 s) and when the last reading is a minute old. A reading that fails
// leaves the keys as they were, for 10 minutes at most.
type Keyring struct {
	dir string
	now func() time.Time

	// mu is held while the directory is read, a few small local files: whoever
	// comes meanwhile needs the result too.
	mu    sync.Mutex
	keys  keySet
	read  time.Time // last success
	tried time.Time
	err   error // of the last try
}

// OpenKeyring reads the keys of a directory ($SESSION_KEYS_DIR); there must be at
// least one.
func OpenKeyring(dir string) (*Keyring, error) {
	return openKeyring(dir, time.Now)
}

func openKeyring(dir string, now func() time.Time) (*Keyring, error) {
	k := &Keyring{dir: dir, now: now}
	k.reload(now())
	return k, k.err
}

// verifier finds the public key called kid. A kid is compared with the names
// that were listed and is never part of a path. Problem: unavailable, while the
// directory cannot be read.
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
	case k.err != nil: // the key may well be there
		return nil, problem.Of(problem.Unavailable).Because(k.err)
	}
	return nil, errUnknownKid
}

// signer gives the newest private key and its kid.
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

// refresh reads the directory again when the last reading is too old.
func (k *Keyring) refresh(now time.Time) error {
	due := now.Sub(k.read) >= keysMaxAge && now.Sub(k.tried) >= keysMinAge
	if due {
		k.reload(now)
	}
	if now.Sub(k.read) >= keysStale {
		return problem.Of(problem.Unavailable).Because(k.err)
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
