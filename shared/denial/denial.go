// Package denial writes the gate's denials (promise G9), which the checkers and their
// stand-in give: every denial of one kind is the same, byte for byte, whoever gives it.
package denial

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// MaxHeader bounds the header of a question, in bytes: more than an ingress takes
// from a client (net/http's 1 MiB), so that a key or an address too long to be good
// is refused as any other and not as a failed question.
const MaxHeader = 1<<20 + 64<<10

// Denial is an answer made ready.
type Denial struct {
	status     int
	body       []byte
	length     []string // Content-Length
	retryAfter []string // nil for none
	challenge  []string // WWW-Authenticate; nil for none
}

// Header values that all denials share: a browser's script may read the denial
// and its Retry-After, whatever its origin (promise G9).
//
//nolint:gochecknoglobals // constants; net/http wants slices
var (
	jsonType     = []string{"application/json"}
	anyOrigin    = []string{"*"}
	exposeHeader = []string{"Retry-After"}
	varyOrigin   = []string{"Origin"}
	noStore      = []string{"no-store"}
)

// New makes the denial of a code, as the table of problems has it.
func New(code problem.Code) *Denial {
	p := problem.Of(code)
	body, err := json.Marshal(wire.Error{Code: string(p.Code), Message: p.Message})
	if err != nil { // two strings always encode
		panic(err)
	}
	d := &Denial{status: p.Status(), body: body, length: []string{strconv.Itoa(len(body))}, retryAfter: seconds(p.RetryAfter)}
	if challenge := p.Challenge(); challenge != "" {
		d.challenge = []string{challenge}
	}
	return d
}

// Write answers with the denial. A retryAfter above zero stands in for the table's.
func (d *Denial) Write(w http.ResponseWriter, retryAfter time.Duration) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = d.length
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposeHeader
	h["Vary"] = varyOrigin
	h["Cache-Control"] = noStore
	if d.challenge != nil {
		h["Www-Authenticate"] = d.challenge
	}
	switch {
	case retryAfter > 0:
		h["Retry-After"] = seconds(retryAfter)
	case d.retryAfter != nil:
		h["Retry-After"] = d.retryAfter
	}
	w.WriteHeader(d.status)
	_, _ = w.Write(d.body) // a proxy that has hung up needs no answer
}

// Preflight tells whether a proxy asks about a CORS preflight, which is never denied: it
// carries no key, and without its answer no browser shows a denial to the page.
func Preflight(h http.Header) bool {
	method := h["X-Forwarded-Method"]
	return len(method) == 1 && method[0] == http.MethodOptions && len(h["Access-Control-Request-Method"]) > 0
}

// Body is the JSON body, which callers do not change.
func (d *Denial) Body() []byte { return d.body }

func seconds(d time.Duration) []string {
	s := (&problem.Error{RetryAfter: d}).RetryAfterSeconds()
	if s == 0 {
		return nil
	}
	return []string{strconv.FormatInt(s, 10)}
}
