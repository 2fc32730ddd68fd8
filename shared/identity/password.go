package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"runtime/debug"

	"golang.org/x/crypto/argon2"
)

// Hasher hashes and checks passwords with argon2id. One hash takes 19 MiB, so only so
// many run at once. The rest wait, those who are known before strangers, and only so
// many of them: a crowd signing in takes neither memory nor the time of those who are
// known; it gets 429.
type Hasher struct {
	queue *queue
	dummy phc // what an unknown user's password is compared with
}

// NewHasher makes a hasher that runs at most concurrent hashes at once.
func NewHasher(concurrent int) (*Hasher, error) {
	if concurrent < 1 {
		return nil, fmt.Errorf("%d password hashes at once: there must be at least one", concurrent)
	}
	return &Hasher{
		queue: newQueue(concurrent),
		dummy: phc{cost: current, salt: random(saltLength), sum: random(sumLength)},
	}, nil
}

// Hash makes the PHC string of a new password, for somebody known. Problems:
// rate_limited and unavailable, when too many wait.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	p := phc{cost: current, salt: random(saltLength)}
	sum, err := h.sum(ctx, Known, p, password, sumLength)
	if err != nil {
		return "", err
	}
	p.sum = sum
	return p.String(), nil
}

// Verify tells whether password is the one that hash was made of. An empty hash,
// for a user who does not exist, matches nothing and takes as long as any other.
// Problems: rate_limited and unavailable, when too many wait.
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
	// What a hash took goes back at once: compared with it, that costs little time,
	// and a function that waits for the next sign-in should not hold it.
	defer debug.FreeOSMemory()
	return argon2.IDKey([]byte(password), p.salt, p.cost.passes, p.cost.memory, p.cost.threads, uint32(length)), nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return b
}
