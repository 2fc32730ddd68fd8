// Package explain is how the management API asks a checker why it has refused a request,
// and what a reason is in words (promise O1).
//
// # Who may ask
//
// A denial's reason is what no client may learn, so that a checker's port can be reached is
// not enough. Each checker process makes a random [Key] and writes it into its canaries. Who
// reads the store has it, and with it everything that keys and their owners are; nobody else
// has: no app, no proxy, and no client. A question comes with its HMAC under that key
// ([Key.Seal]); without the right one nothing of it is read. So there is no secret to make,
// mount or renew, and a key is good for one process, as long as that lives.
//
//   - It goes over TLS to the address that the canary names, to a server that the checkers'
//     authority vouches for, so that questions are not seen on their way.
//   - It is good for [Window] around the time at which the store was read, and once: a
//     checker remembers those of the window ([Asked]). At another checker, or in its next
//     life, it is worth nothing.
//   - It is about one request and names the namespaces that its asker may see; a checker says
//     nothing of others. Which ones a person may see is for the asker to decide.
//   - What a checker reads, remembers and answers is bounded ([MaxQuestion], [MaxAsked],
//     [MaxDenials]), and so is how many may ask at one time.
//
// The window is the only place where one machine's clock is held against another's: a
// checker whose clock is wrong by more refuses, which reads as one that was not heard.
package explain

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
	// Path is where a checker is asked, with POST.
	Path = "/denials"

	// Header carries a question's HMAC, in hexadecimal.
	Header = "X-Sluice-Question"

	// Window is by how much the store's clock and a checker's may differ, and how long a
	// question is good.
	Window = time.Minute

	// MaxQuestion bounds a question, in bytes: it has room for some thousand namespaces.
	MaxQuestion = 128 << 10

	// MaxAsked is how many questions a checker takes in a window.
	MaxAsked = 4096

	// MaxDenials is how many denials one checker tells of one request. A client may give
	// all its requests one id.
	MaxDenials = 20

	// MaxAnswer bounds an answer, in bytes.
	MaxAnswer = 64 << 10
)

// Question asks why a request was refused.
type Question struct {
	RequestID  string    `json:"request_id"`
	Namespaces []string  `json:"namespaces"`         // of apps that the asker may see
	Prefixes   []string  `json:"prefixes,omitempty"` // of the keys whose usage is requested (package counted)
	At         time.Time `json:"at"`                 // by the store's clock
	Nonce      string    `json:"nonce"`              // so that no two questions are alike
}

// Denial is a request that was refused, as far as it is told.
type Denial struct {
	At        time.Time `json:"at"`
	Code      string    `json:"code"`       // what the client was told, e.g. "invalid_key"
	Reason    Reason    `json:"reason"`     // the true one
	Namespace string    `json:"namespace"`  // of the app
	App       string    `json:"app"`        //
	KeyPrefix string    `json:"key_prefix"` // as it was sent, which may be any text; "" when no key of a key's length came
	Method    string    `json:"method"`     // of the client's request, which may be any text
}

// Answer is what a checker says.
type Answer struct {
	Replica string   `json:"replica"`
	Run     string   `json:"run"`     // as in its canaries
	Denials []Denial `json:"denials"` // newest first
}

// Key is what questions to one checker process are sealed with.
type Key [sha256.Size]byte

// LogValue keeps a key out of logs.
func (Key) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// NewKey makes a key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// Seal writes a question, and its HMAC for [Header].
func (k Key) Seal(q Question) (body []byte, seal string, err error) {
	q.Nonce = rand.Text()
	body, err = json.Marshal(q)
	if err != nil {
		return nil, "", fmt.Errorf("write question: %w", err)
	}
	return body, k.seal(body), nil
}

func (k Key) seal(body []byte) string {
	mac := hmac.New(sha256.New, k[:])
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// What is wrong with a question.
var (
	ErrForged   = errors.New("the question is not sealed by who reads the store")
	ErrStale    = errors.New("the question is not of now")
	ErrRepeated = errors.New("the question was asked before")
	ErrTooMany  = errors.New("too many questions")
	ErrShape    = errors.New("the question is none")
)

// Asked are the questions that a process has taken, under its key.
type Asked struct {
	key Key

	mu   sync.Mutex // guards what follows
	seen map[string]time.Time
}

// NewAsked is of a process that has taken none.
func NewAsked(k Key) *Asked { return &Asked{key: k, seen: map[string]time.Time{}} }

// Open reads a question, once. Nothing of it is looked at before its seal is known to be
// right, which takes the same time however wrong it is.
func (a *Asked) Open(body []byte, seal string, now time.Time) (Question, error) {
	if !hmac.Equal([]byte(seal), []byte(a.key.seal(body))) {
		return Question{}, ErrForged
	}
	var q Question
	if err := json.Unmarshal(body, &q); err != nil || !trace.ValidID(q.RequestID) {
		return Question{}, ErrShape
	}
	if away := now.Sub(q.At); away > Window || away < -Window {
		return Question{}, ErrStale
	}
	return q, a.take(seal, q.At, now)
}

// take remembers a question for as long as it is good.
func (a *Asked) take(seal string, at, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.seen[seal]; again {
		return ErrRepeated
	}
	if len(a.seen) >= MaxAsked {
		for old, of := range a.seen {
			if now.Sub(of) > Window {
				delete(a.seen, old)
			}
		}
	}
	if len(a.seen) >= MaxAsked {
		return ErrTooMany
	}
	a.seen[seal] = at
	return nil
}

// Sees tells whether the asker may see what happened in a namespace. What has none, such as
// a request that a proxy asked about in the wrong way, is for operators alone.
func (q Question) Sees(namespace string) bool {
	return namespace != "" && slices.Contains(q.Namespaces, namespace)
}
