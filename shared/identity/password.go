package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"runtime/debug"

	"golang.org/x/crypto/argon2"
)

// Hasher hashes passwords with argon2id. A hash takes 19 MiB, so only a few run concurrently. Known
// clients wait in front of others; if too many wait, calls fail.
type Hasher struct {
	queue *queue
	dummy phc // for unknown users
}

// NewHasher returns a hasher that runs up to concurrent hashes at a time. It returns an error if
// concurrent is not positive.
func NewHasher(concurrent int) (*Hasher, error) {
	if concurrent < 1 {
		return nil, fmt.Errorf("the number of concurrent password hashes is %d, but must be at least 1", concurrent)
	}
	return &Hasher{
		queue: newQueue(concurrent),
		dummy: phc{cost: current, salt: random(saltLength), sum: random(sumLength)},
	}, nil
}

// Hash returns the PHC string of a new password. It waits in the lane [Known].
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	p := phc{cost: current, salt: random(saltLength)}
	sum, err := h.sum(ctx, Known, p, password, sumLength)
	if err != nil {
		return "", err
	}
	p.sum = sum
	return p.String(), nil
}

// Verify reports whether the password matches a hash. An empty hash, for an unknown user, never
// matches and takes as long as others.
func (h *Hasher) Verify(ctx context.Context, lane Lane, hash, password string) (bool, error) {
	want := h.dummy
	if hash != "" {
		var err error
		if want, err = parsePHC(hash); err != nil {
			return false, err
		}
	}
	got, err := h.sum(ctx, lane, want, password, len(want.sum))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want.sum) == 1 && hash != "", nil
}

func (h *Hasher) sum(ctx context.Context, lane Lane, p phc, password string, length int) ([]byte, error) {
	if err := h.queue.enter(ctx, lane); err != nil {
		return nil, fmt.Errorf("wait to hash a password: %w", err)
	}
	defer h.queue.leave()
	// Return the memory immediately; this is cheap compared with the hash.
	defer debug.FreeOSMemory()
	return argon2.IDKey([]byte(password), p.salt, p.cost.passes, p.cost.memory, p.cost.threads, uint32(length)), nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
