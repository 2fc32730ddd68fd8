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

	"github.com/sluicegate/sluice/shared/trace"
)

const (
	// QueryPath is the path of queries, which use POST.
	QueryPath = "/denials"

	// SignatureHeader carries a query's HMAC, in hexadecimal.
	SignatureHeader = "X-Sluice-Question"

	// QueryWindow is the largest difference between a query's time and the checker's clock.
	QueryWindow = time.Minute

	// MaxQuery is the largest size of a query, in bytes: some thousand namespaces.
	MaxQuery = 128 << 10

	// MaxQueries is how many queries a checker takes in a window.
	MaxQueries = 4096

	// MaxDenials is how many denials a checker returns for one request id. A client may
	// send the same id with all its requests.
	MaxDenials = 20

	// MaxResponse is the largest size of a response, in bytes.
	MaxResponse = 64 << 10
)

// Query asks for the denials of a request, or for the counts of keys.
type Query struct {
	RequestID  string    `json:"request_id"`
	Namespaces []string  `json:"namespaces"`         // that the user may see
	Prefixes   []string  `json:"prefixes,omitempty"` // of the keys whose usage is requested (package counted)
	At         time.Time `json:"at"`                 // by the store's clock
	Nonce      string    `json:"nonce"`              // makes each query unique
}

// Denial describes a denied request.
type Denial struct {
	At        time.Time `json:"at"`
	Code      string    `json:"code"`      // in the response to the client, e.g. "invalid_key"
	Reason    Reason    `json:"reason"`    // not shown to the client
	Namespace string    `json:"namespace"` // of the app
	App       string    `json:"app"`
	KeyPrefix string    `json:"key_prefix"` // as sent, so any text; "" unless the request carries a value of a key's length
	Method    string    `json:"method"`     // as sent, so any text
}

// Response is a checker's response to a query.
type Response struct {
	Replica string   `json:"replica"`
	Run     string   `json:"run"`     // random per process, as in its canaries
	Denials []Denial `json:"denials"` // newest first
}

// QueryKey signs queries to one checker process.
type QueryKey [sha256.Size]byte

// LogValue keeps a key out of logs.
func (QueryKey) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// NewQueryKey returns a random key.
func NewQueryKey() QueryKey {
	var k QueryKey
	_, _ = rand.Read(k[:]) // it never fails
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

// Why a query is rejected.
var (
	ErrBadSignature = errors.New("the signature of the query is wrong")
	ErrStale        = errors.New("the query is too old or too new")
	ErrRepeated     = errors.New("the query was received before")
	ErrTooMany      = errors.New("too many queries")
	ErrMalformed    = errors.New("the query is malformed")
)

// ReplayGuard verifies queries and remembers them for the window, so that each is valid once.
type ReplayGuard struct {
	key QueryKey

	mu   sync.Mutex // guards what follows
	seen map[string]time.Time
}

// NewReplayGuard returns a guard for the queries of one process.
func NewReplayGuard(k QueryKey) *ReplayGuard {
	return &ReplayGuard{key: k, seen: map[string]time.Time{}}
}

// VerifyQuery decodes a query after it has verified its signature in constant time. It
// returns [ErrBadSignature], [ErrMalformed], [ErrStale], [ErrRepeated] or [ErrTooMany].
func (g *ReplayGuard) VerifyQuery(body []byte, signature string, now time.Time) (Query, error) {
	if !hmac.Equal([]byte(signature), []byte(g.key.sign(body))) {
		return Query{}, ErrBadSignature
	}
	var q Query
	if err := json.Unmarshal(body, &q); err != nil || !trace.ValidID(q.RequestID) {
		return Query{}, ErrMalformed
	}
	if away := now.Sub(q.At); away > QueryWindow || away < -QueryWindow {
		return Query{}, ErrStale
	}
	return q, g.take(signature, q.At, now)
}

// take remembers a query while it is valid.
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

// Sees reports whether the user may see denials in a namespace. A denial without a namespace
// comes from a misconfigured proxy and is for operators alone.
func (q Query) Sees(namespace string) bool {
	return namespace != "" && slices.Contains(q.Namespaces, namespace)
}
