package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

// Remembered is how long a delivery's answer is kept.
const Remembered = 24 * time.Hour

// Delivery is a call that its sender may send again: what came of it is kept, and
// the same delivery with the same body is answered as the first time.
type Delivery struct {
	ID   string // of the app and of what the sender calls the delivery, 64 hex digits
	Body string // SHA-256 of the body, 64 hex digits
}

// NewDelivery makes the delivery that the sender of a call to an app knows by id.
func NewDelivery(ref app.Ref, id string, body []byte) Delivery {
	named := sha256.Sum256([]byte(ref.String() + "\n" + id)) // neither name holds a line break
	content := sha256.Sum256(body)
	return Delivery{ID: hex.EncodeToString(named[:]), Body: hex.EncodeToString(content[:])}
}

// Answer is what came of a call.
type Answer struct {
	Action   Action
	Revision int64  // with Deploy: the one recorded
	Build    int64  // with Build: the one recorded
	Image    string // with Deploy
	Commit   string
	Reason   string // with Ignore
}

// Outcome is what a call adds to an app: with Deploy the revision, with Build the
// build, both still without a number; otherwise nothing.
type Outcome struct {
	Decision
	Revision deploy.Revision
	Build    deploy.Build
}

// Answer is what the call is told, once what it adds has its number.
func (o Outcome) Answer(number int64) Answer {
	a := Answer{Action: o.Action, Image: o.Image, Commit: o.Commit, Reason: o.Reason}
	switch o.Action {
	case Deploy:
		a.Revision = number
	case Build:
		a.Build = number
	case Ignore, Pong:
	}
	return a
}
