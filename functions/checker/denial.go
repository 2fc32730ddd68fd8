package checker

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/denial"
)

// Every refusal of one kind is the same, byte for byte, but for its X-Request-Id. That
// is the client's own or random, whatever the reason of the denial, so it tells
// nothing; an operator finds the reason by it.
//
//nolint:gochecknoglobals // made once from the table of problems, then only read
var answers = makeAnswers()

//nolint:gochecknoglobals // a constant; net/http wants a slice
var closeConnection = []string{"close"}

func makeAnswers() [outcomes]*denial.Denial {
	var all [outcomes]*denial.Denial
	for o := invalidKey; o < outcomes; o++ {
		all[o] = denial.New(o.code())
	}
	return all
}

// deny answers the request called id with a denial. A retryAfter above zero stands
// in for the table's.
func deny(w http.ResponseWriter, id string, o outcome, retryAfter time.Duration) {
	w.Header()[idHeader] = []string{id}
	answers[o].Write(w, retryAfter)
}
