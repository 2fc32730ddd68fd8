package checkers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/reqctx"
)

const (
	// QueryPath is the path for queries, which are POST requests.
	QueryPath = "/denials"

	// SignatureHeader is the header with the hexadecimal HMAC of a query.
	SignatureHeader = "X-Sluice-Question"

	// QueryWindow is the maximum difference between the time of a query and the checker's clock.
	QueryWindow = time.Minute
)

// Limits of queries and responses.
const (
	MaxQuery    = 128 << 10 // bytes in a query
	MaxQueries  = 4096      // queries in a window
	MaxDenials  = 20        // denials in a response: a client can use a request ID many times
	MaxResponse = 64 << 10  // bytes in a response
)

// Query requests the denials of a request or the counts of keys.
type Query struct {
	RequestID  string    `json:"request_id"`
	Namespaces []string  `json:"namespaces"`         // namespaces that the user may see
	Prefixes   []string  `json:"prefixes,omitempty"` // keys whose counts are requested (package usagequery)
	At         time.Time `json:"at"`                 // time of the store
	Nonce      string    `json:"nonce"`              // makes each query unique
}

// Denial describes a denied request.
type Denial struct {
	At        time.Time `json:"at"`
	Code      string    `json:"code"`      // problem code that the client received
	Reason    Reason    `json:"reason"`    // never sent to the client
	Namespace string    `json:"namespace"` // namespace of the app
	App       string    `json:"app"`
	KeyPrefix string    `json:"key_prefix"` // as sent, any text; "" unless the value has the length of a key
	Method    string    `json:"method"`     // as sent, any text
}

// Response is a checker's response to a query.
type Response struct {
	Replica string   `json:"replica"`
	Run     string   `json:"run"`     // random per process, as in the canaries
	Denials []Denial `json:"denials"` // newest first
}

// QueryKey signs queries to one checker process.
type QueryKey [sha256.Size]byte

// LogValue redacts the key in logs.
func (QueryKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// NewQueryKey returns a random key.
func NewQueryKey() QueryKey {
	var k QueryKey
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// SignQuery encodes a query and returns its HMAC for [SignatureHeader].
func (k QueryKey) SignQuery(q Query) (body []byte, signature string, err error) {
	q.Nonce = rand.Text()
	body, err = json.Marshal(q)
	if err != nil {
		return nil, "", fmt.Errorf("encode query: %w", err)
	}
	return body, k.sign(body), nil
}

func (k QueryKey) sign(body []byte) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// The reasons for rejecting a query.
var (
	ErrBadSignature = errors.New("invalid signature of the query")
	ErrStale        = errors.New("time of the query outside the window")
	ErrRepeated     = errors.New("repeated query")
	ErrTooMany      = errors.New("too many queries")
	ErrMalformed    = errors.New("malformed query")
)

// ReplayGuard verifies queries and accepts each only once.
type ReplayGuard struct {
	key QueryKey

	mu   sync.Mutex // guards seen
	seen map[string]time.Time
}

// NewReplayGuard returns a guard for the key of this process.
func NewReplayGuard(k QueryKey) *ReplayGuard {
	return &ReplayGuard{key: k, seen: map[string]time.Time{}}
}

// VerifyQuery verifies the signature in constant time and then decodes the query. It returns
// [ErrBadSignature], [ErrMalformed], [ErrStale], [ErrRepeated] or [ErrTooMany].
func (g *ReplayGuard) VerifyQuery(body []byte, signature string, now time.Time) (Query, error) {
	if !hmac.Equal([]byte(signature), []byte(g.key.sign(body))) {
		return Query{}, ErrBadSignature
	}
	var q Query
	if err := json.Unmarshal(body, &q); err != nil || !reqctx.ValidID(q.RequestID) {
		return Query{}, ErrMalformed
	}
	if away := now.Sub(q.At); away > QueryWindow || away < -QueryWindow {
		return Query{}, ErrStale
	}
	return q, g.take(signature, q.At, now)
}

func (g *ReplayGuard) take(signature string, at, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, again := g.seen[signature]; again {
		return ErrRepeated
	}
	if len(g.seen) >= MaxQueries {
		for old, of := range g.seen {
			if now.Sub(of) > QueryWindow {
				delete(g.seen, old)
			}
		}
	}
	if len(g.seen) >= MaxQueries {
		return ErrTooMany
	}
	g.seen[signature] = at
	return nil
}

// Sees reports whether the user may see denials in a namespace. Only operators may see those
// without a namespace, which come from misconfigured proxies.
func (q Query) Sees(namespace string) bool {
	return namespace != "" && slices.Contains(q.Namespaces, namespace)
}
