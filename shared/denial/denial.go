// Package denial writes the gate's denials (promise G9) for the checkers and their stand-in.
// Denials of one kind are identical, byte for byte.
package denial

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// MaxHeader is the maximum header size of a request from an ingress, in bytes. It exceeds what an
// ingress accepts from clients (net/http's 1 MiB), so an overlong key or URL is denied like any
// other.
const MaxHeader = 1<<20 + 64<<10

// Denial is a prepared response.
type Denial struct {
	status     int
	body       []byte
	length     []string
	retryAfter []string
	challenge  []string
}

// Scripts of any origin can read the denial and its Retry-After (promise G9).
//
//nolint:gochecknoglobals // constants; net/http wants slices
var (
	jsonType     = []string{"application/json"}
	anyOrigin    = []string{"*"}
	exposeHeader = []string{"Retry-After"}
	varyOrigin   = []string{"Origin"}
	noStore      = []string{"no-store"}
)

// New returns the denial for a problem code.
func New(code problem.Code) *Denial {
	p := problem.FromCode(code)
	body, err := json.Marshal(wire.Error{Code: string(p.Code), Message: p.Message})
	if err != nil {
		panic(err)
	}
	d := &Denial{status: p.Status(), body: body, length: []string{strconv.Itoa(len(body))}, retryAfter: seconds(p.RetryAfter)}
	if challenge := p.Challenge(); challenge != "" {
		d.challenge = []string{challenge}
	}
	return d
}

// Write writes the denial as the response. A retryAfter above zero replaces the default of the
// problem code.
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
	_, _ = w.Write(d.body) // a proxy that has disconnected needs no response
}

// Preflight reports whether the request is for a CORS preflight, which is never denied: it contains
// no key, and browsers hide denials from the page if it fails.
func Preflight(h http.Header) bool {
	method := h["X-Forwarded-Method"]
	return len(method) == 1 && method[0] == http.MethodOptions && len(h["Access-Control-Request-Method"]) > 0
}

// Body returns the JSON body, which callers must not change.
func (d *Denial) Body() []byte { return d.body }

func seconds(d time.Duration) []string {
	s := (&problem.Error{RetryAfter: d}).RetryAfterSeconds()
	if s == 0 {
		return nil
	}
	return []string{strconv.FormatInt(s, 10)}
}
