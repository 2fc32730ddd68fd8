package checker

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// denial is an answer made ready: every refusal of one kind is the same, byte
// for byte, but for its X-Request-Id. That is the client's own or random, whatever
// the reason of the denial, so it tells nothing; an operator finds the reason by it.
type denial struct {
	status     int
	body       []byte
	length     []string // Content-Length
	retryAfter []string // nil for none
}

//nolint:gochecknoglobals // made once from the table of problems, then only read
var answers = makeAnswers()

// Header values that all denials share: a browser's script may read the denial
// and its Retry-After, whatever its origin (specification section 4.1).
//
//nolint:gochecknoglobals // constants; net/http wants slices
var (
	jsonType     = []string{"application/json"}
	anyOrigin    = []string{"*"}
	exposeHeader = []string{"Retry-After"}
	varyOrigin   = []string{"Origin"}
	noStore      = []string{"no-store"}

	closeConnection = []string{"close"}
)

func makeAnswers() [outcomes]denial {
	var all [outcomes]denial
	for o := invalidKey; o < outcomes; o++ {
		p := problem.Of(o.code())
		body, err := json.Marshal(wire.Error{Code: string(p.Code), Message: p.Message})
		if err != nil { // two strings always encode
			panic(err)
		}
		all[o] = denial{status: p.Status(), body: body, length: []string{strconv.Itoa(len(body))}, retryAfter: seconds(p.RetryAfter)}
	}
	return all
}

// deny answers the request called id with a denial. A retryAfter above zero stands
// in for the table's.
func deny(w http.ResponseWriter, id string, o outcome, retryAfter time.Duration) {
	d := &answers[o]
	h := w.Header()
	h[idHeader] = []string{id}
	h["Content-Type"] = jsonType
	h["Content-Length"] = d.length
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposeHeader
	h["Vary"] = varyOrigin
	h["Cache-Control"] = noStore
	switch {
	case retryAfter > 0:
		h["Retry-After"] = seconds(retryAfter)
	case d.retryAfter != nil:
		h["Retry-After"] = d.retryAfter
	}
	w.WriteHeader(d.status)
	_, _ = w.Write(d.body) // a proxy that has hung up needs no answer
}

func seconds(d time.Duration) []string {
	s := (&problem.Error{RetryAfter: d}).RetryAfterSeconds()
	if s == 0 {
		return nil
	}
	return []string{strconv.FormatInt(s, 10)}
}
