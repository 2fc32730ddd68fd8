package wiring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// kind is what an answer to a request without a key says about the gate.
type kind int

const (
	unreachable   kind = iota // there was no ingress to ask
	untrusted                 // its certificate, or its TLS, is not as it should be
	late                      // no answer in time: the checker may hang, Traefik waits 30 s for it
	refused                   // the gate's own 401: it is in place and works
	unavailable               // the gate's own 503: in place, but it cannot decide
	misconfigured             // the gate's own 500
	silent                    // a bare 500: what Traefik says when it cannot reach the checker
	unknownHost               // a 404
	other                     // anything else: the app itself
	copied                    // the gate's own 401, but not from a checker
	bypassed                  // the gate is in place, but there are ways around it
	moving                    // the gate is in place; Knative has not closed its own way to the app yet
	unsearched                // the gate is in place; ways around it could not be looked for
)

// answer is the ingress's answer to a request without a key.
type answer struct {
	kind   kind
	status int    // HTTP
	detail string // the message, of untrusted; where the ways are, of bypassed
}

// classify reads an answer. The gate is known by its body, byte for byte: an app
// may well have 401s of its own.
func classify(status int, body []byte) answer {
	body = bytes.TrimSpace(body)
	for _, own := range []struct {
		kind kind
		code problem.Code
	}{{refused, problem.InvalidKey}, {unavailable, problem.GateUnavailable}, {misconfigured, problem.Misconfigured}} {
		p := problem.Of(own.code)
		if status == p.Status() && bytes.Equal(body, denial(p)) {
			return answer{kind: own.kind, status: status}
		}
	}
	switch {
	case status == http.StatusInternalServerError && len(body) == 0:
		return answer{kind: silent, status: status}
	case status == http.StatusNotFound:
		return answer{kind: unknownHost, status: status}
	}
	return answer{kind: other, status: status}
}

// denial is the body of one of the gate's answers.
func denial(p *problem.Error) []byte {
	body, err := json.Marshal(wire.Error{Code: string(p.Code), Message: p.Message})
	if err != nil { // two strings always encode
		panic(err)
	}
	return body
}

// passes tells whether a request without a key has got through to the app, or past
// the gate at least. No answer is no such proof.
func (a answer) passes() bool {
	return a.kind == other || a.kind == unknownHost || a.kind == copied || a.kind == bypassed
}

// proves tells whether an answer is what was sought. A bare 500 does not keep a
// gate from being released: an app may answer like that, and the route no longer
// names the gate.
func (a answer) proves(sought proof) bool {
	switch sought {
	case proveNothing:
		return true
	case proveEngaged:
		return a.kind == refused
	case proveReleased:
		return a.kind == other || a.kind == unknownHost || a.kind == silent
	}
	return false
}

// message tells an operator what is in the way.
func (a answer) message() string {
	switch a.kind {
	case unreachable:
		return "The ingress cannot be reached."
	case untrusted:
		return a.detail
	case late:
		return "The ingress does not answer in time; the checker may be stuck."
	case unavailable:
		return "The gate is on the route, but cannot verify keys right now."
	case misconfigured:
		return "The gate is on the route, but misconfigured."
	case silent:
		return "The ingress cannot reach the checker."
	case unknownHost:
		return "The ingress does not know the app's host, or the app answers 404 without a key."
	case refused:
		return "The gate still answers."
	case copied:
		return "Something answers like the gate, but is not: its answer lacks the checkers' proof."
	case bypassed:
		return "The app is reachable without the gate at " + a.detail + "."
	case moving:
		return "The gate is on the route; Knative has not said yet that it has taken the app off its public gateway."
	case unsearched:
		return "The gate is on the route; the cluster could not be asked for ways around it."
	case other:
	}
	return fmt.Sprintf("The app's public URL still answers %d to a request without a key.", a.status)
}

// some names the first few of many.
func some(ways []string) string {
	const most = 3
	if more := len(ways) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(ways[:most], ", "), more)
	}
	return strings.Join(ways, ", ")
}
