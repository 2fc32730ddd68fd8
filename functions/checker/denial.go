package checker

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/denial"
)

//nolint:gochecknoglobals // made once from the table of problems, then only read
var denials = makeDenials()

//nolint:gochecknoglobals // a constant; net/http wants a slice
var closeConnection = []string{"close"}

func makeDenials() [outcomes]*denial.Denial {
	var all [outcomes]*denial.Denial
	for o := invalidKey; o < outcomes; o++ {
		all[o] = denial.New(o.code())
	}
	return all
}

// deny answers a denial. A retryAfter above zero stands in for the table's.
func deny(w http.ResponseWriter, o outcome, retryAfter time.Duration) {
	denials[o].Write(w, retryAfter)
}
