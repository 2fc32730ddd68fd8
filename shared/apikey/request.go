package apikey

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// RequestRemembered is for how long a request that has issued a full key is known
// again.
const RequestRemembered = 24 * time.Hour

// Request is a call that issues a full key and that its sender may send again: the
// answer was lost, or a page was reloaded. A full key is shown exactly once
// (specification section 2.2), so the second call cannot be answered as the first
// was, and must not issue another key that nobody asked for: it is refused.
type Request struct {
	ID string    // 64 hex digits; "" makes every call a new one
	At time.Time // when it came
}

// NewRequest makes the request that a caller knows by name, an Idempotency-Key.
// The same name of another caller, or in another project, is another request.
func NewRequest(caller, project, name string, at time.Time) Request {
	if name == "" {
		return Request{At: at}
	}
	sum := sha256.Sum256([]byte("issue\n" + caller + "\n" + project + "\n" + name)) // no part holds a line break
	return Request{ID: hex.EncodeToString(sum[:]), At: at}
}
