package wiring

import (
	"fmt"
	"sync"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/gateproof"
)

// witness knows the keys by which checkers prove that a denial is theirs: that of the
// certificate that they are to serve, and that of the one before, which they serve until
// the new one has reached them. A process that starts in that minute knows the new one
// only, and may call gates in place unproven until the minute is over.
type witness struct {
	mu                sync.Mutex
	current, previous gateproof.Key
	known             int // how many of the two
}

// learn takes in the private key that checkers are to serve with, unless there is none:
// anybody could derive something from that.
func (w *witness) learn(privateKey []byte) error {
	if len(privateKey) == 0 {
		return nil
	}
	key, err := gateproof.KeyOf(privateKey)
	if err != nil {
		return fmt.Errorf("the checkers' proofs: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known > 0 && key == w.current {
		return nil
	}
	w.previous, w.current = w.current, key
	w.known = min(w.known+1, 2)
	return nil
}

// proven tells whether a checker has proven that it was asked about an app.
func (w *witness) proven(ref app.Ref, nonce, proof string) bool {
	w.mu.Lock()
	keys, known := [2]gateproof.Key{w.current, w.previous}, w.known
	w.mu.Unlock()
	for _, key := range keys[:known] {
		if key.Proves(proof, nonce, ref.Namespace+"/"+ref.Name) {
			return true
		}
	}
	return false
}
