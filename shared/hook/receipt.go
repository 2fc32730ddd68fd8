package hook

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// Result is what came of a call, in a word, for metrics and receipts alike.
type Result string

// The results.
const (
	Deployed  Result = "deployed"
	Building  Result = "building"
	Ignored   Result = "ignored"
	Ponged    Result = "pong"
	Replayed  Result = "replayed"  // a delivery that came before
	Refused   Result = "refused"   // proven, but not acceptable
	Unproven  Result = "unproven"  // no token, or a wrong one
	Throttled Result = "throttled" // too many
	Broken    Result = "error"     // the store or the cluster did not answer
)

// Results lists all results.
func Results() []Result {
	return []Result{Deployed, Building, Ignored, Ponged, Replayed, Refused, Unproven, Throttled, Broken}
}

// ResultOf is what came of a call: its answer, fresh or that of the delivery's first, or
// the error that it was refused with.
func ResultOf(a Answer, fresh bool, err error) Result {
	if err != nil {
		return failure(problem.From(err))
	}
	if !fresh {
		return Replayed
	}
	switch a.Action {
	case Deploy:
		return Deployed
	case Build:
		return Building
	case Ignore:
		return Ignored
	case Pong:
	}
	return Ponged
}

func failure(p *problem.Error) Result {
	switch {
	case p.Code == problem.InvalidToken:
		return Unproven
	case p.Code == problem.RateLimited:
		return Throttled
	case p.Status() < http.StatusInternalServerError:
		return Refused
	}
	return Broken
}

// Changes tells whether a call with this result has added to its app.
func (r Result) Changes() bool { return r == Deployed || r == Building }

// Gathers tells whether calls with this result share a receipt: others decide how many
// there are of them.
func (r Result) Gathers() bool { return r == Unproven || r == Throttled }

// ReceiptsKept is for how long receipts are kept.
const ReceiptsKept = 7 * 24 * time.Hour

// Receipt is what is kept of a call for those who run the app: when it came, what came of
// it, and what finds it again elsewhere. It holds no token, no signature, no body and no
// image. (People read receipts as the webhook's "deliveries", which is what git providers
// call them; a [Delivery] here is a call by the id that makes it count once.)
type Receipt struct {
	ID     string    `firestore:"-"` // of its document; the newest sorts first
	At     time.Time `firestore:"at"`
	App    app.Ref   `firestore:"-"`
	Result Result    `firestore:"result"`

	// Of calls that share a receipt ([Result.Gathers]): how many there were, the first of
	// them at At and the latest at Last, whose RequestID this is. Of every other, 1 and At.
	Count int       `firestore:"count"`
	Last  time.Time `firestore:"last_at"`

	Code      problem.Code `firestore:"code"`     // why it was refused; "" if it was not
	Reason    string       `firestore:"reason"`   // why it was ignored
	Event     Event        `firestore:"event"`    // "" of a pipeline's call
	Revision  int64        `firestore:"revision"` // of Deployed, and of what a replayed call deployed at first; else 0
	Build     int64        `firestore:"build"`    // the same of Building
	Commit    string       `firestore:"commit"`
	RequestID string       `firestore:"request_id"`
	Delivery  string       `firestore:"delivery"` // what the sender calls the call, "" if it has no name for it
}

// Says is why the call changed nothing, in a sentence; "" of one that did, and of a ping.
func (r Receipt) Says() string {
	if r.Code != "" {
		return problem.Of(r.Code).Message
	}
	return r.Reason
}

// The bounds of a receipt's texts, in bytes. GitHub's delivery ids have 36, and the longest
// name of its events 40.
const (
	maxDelivery = 128
	maxEvent    = 64
	maxText     = 256
)

// Bounded is the receipt with the texts that a sender has chosen cut to their bounds and in
// printable ASCII, which ids, events and commits are: they are for logs, terminals and pages.
func (r Receipt) Bounded() Receipt {
	r.Delivery = app.Printable(r.Delivery, maxDelivery)
	r.Event = Event(app.Printable(string(r.Event), maxEvent))
	r.Commit = app.Printable(r.Commit, maxCommit)
	r.RequestID = app.Printable(r.RequestID, maxEvent)
	r.Reason = app.Printable(r.Reason, maxText)
	return r
}
