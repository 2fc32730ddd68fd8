package hook

import (
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// Result is the result of a call, for metrics and receipts.
type Result string

// The results.
const (
	Deployed  Result = "deployed"
	Building  Result = "building"
	Ignored   Result = "ignored"
	Ponged    Result = "pong"
	Replayed  Result = "replayed"  // repeated delivery
	Refused   Result = "refused"   // authenticated, but not valid
	Unproven  Result = "unproven"  // without a valid token
	Throttled Result = "throttled" // above the rate limit
	Broken    Result = "error"     // internal or unavailable
)

// Results lists all results.
func Results() []Result {
	return []Result{Deployed, Building, Ignored, Ponged, Replayed, Refused, Unproven, Throttled, Broken}
}

// ResultOf returns the result of a call with the given response or error. fresh is false for a
// repeated delivery.
func ResultOf(a StoredResponse, fresh bool, err error) Result {
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

// Changes reports whether the call changed its app.
func (r Result) Changes() bool { return r == Deployed || r == Building }

// Aggregated reports whether calls with this result share a receipt, because their number is
// unbounded.
func (r Result) Aggregated() bool { return r == Unproven || r == Throttled }

// ReceiptRetention is the retention period of receipts.
const ReceiptRetention = 7 * 24 * time.Hour

// Receipt is the stored record of a call. It contains no token, signature, body or image. The API
// lists receipts as the webhook's deliveries.
type Receipt struct {
	ID     string    `firestore:"-"` // the newest sorts first
	At     time.Time `firestore:"at"`
	App    app.Ref   `firestore:"-"`
	Result Result    `firestore:"result"`

	// Count is the number of calls: 1 unless the receipt is shared. Last is the time of the latest
	// call, and At the time of the first.
	Count int       `firestore:"count"`
	Last  time.Time `firestore:"last_at"`

	Code      problem.Code `firestore:"code"`     // reason for a rejection, or ""
	Reason    string       `firestore:"reason"`   // for ignoring the call, or ""
	Event     Event        `firestore:"event"`    // "" for a pipeline's call
	Revision  int64        `firestore:"revision"` // also for a replay; else 0
	Build     int64        `firestore:"build"`    // also for a replay; else 0
	Commit    string       `firestore:"commit"`
	RequestID string       `firestore:"request_id"`
	Delivery  string       `firestore:"delivery"` // the sender's ID, or ""
}

// DisplayMessage returns the reason why the call had no effect, or "".
func (r Receipt) DisplayMessage() string {
	if r.Code != "" {
		return problem.FromCode(r.Code).Message
	}
	return r.Reason
}

// The maximum lengths of texts in bytes. GitHub's delivery IDs have 36 bytes, and its longest
// event name 40.
const (
	maxDelivery = 128
	maxEvent    = 64
	maxText     = 256
)

// Bounded returns the receipt with the sender's texts shortened and in printable ASCII.
func (r Receipt) Bounded() Receipt {
	r.Delivery = app.SanitizeASCII(r.Delivery, maxDelivery)
	r.Event = Event(app.SanitizeASCII(string(r.Event), maxEvent))
	r.Commit = app.SanitizeASCII(r.Commit, maxCommit)
	r.RequestID = app.SanitizeASCII(r.RequestID, maxEvent)
	r.Reason = app.SanitizeASCII(r.Reason, maxText)
	return r
}
