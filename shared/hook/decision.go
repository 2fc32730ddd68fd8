package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

// Action is what a call makes of an app.
type Action string

// The actions.
const (
	Deploy Action = "deploy" // the image, at once
	Build  Action = "build"  // the git source, at the commit or at its branch's head
	Ignore Action = "ignore"
	Pong   Action = "pong" // answers a ping
)

// Decision is what shall be done.
type Decision struct {
	Action Action
	Image  string // to deploy
	Commit string // to build or to record; "" when the call names none
	Reason string // why nothing is done, for people
}

// branchPrefix is what the ref of a branch begins with.
const branchPrefix = "refs/heads/"

// Decide says what a call makes of an app. A push triggers a git app when its ref
// is exactly the branch of the git source: "refs/heads/feature/main" is not
// "main". A push cannot deploy an image app, which it names no image for, and is
// told so: the provider's hook has outlived the app's git source. Problems:
// image_required, git_source_attached.
func Decide(a app.App, c Call) (Decision, error) {
	switch c.Event {
	case Ping:
		return Decision{Action: Pong}, nil
	case Push:
		return decidePush(a, c)
	case NoEvent:
		return decideCall(a, c)
	}
	return Decision{Action: Ignore, Reason: "Only push events deploy."}, nil
}

func decidePush(a app.App, c Call) (Decision, error) {
	branch, isBranch := strings.CutPrefix(c.Ref, branchPrefix)
	switch {
	case !isBranch:
		return Decision{Action: Ignore, Reason: "The push is not to a branch."}, nil
	case c.Deleted:
		return Decision{Action: Ignore, Reason: "The push deletes a branch."}, nil
	case a.GitSource == nil:
		return Decision{}, problem.New(problem.ImageRequired, "The app has no git source, so a push cannot build it; name an image.")
	case branch != a.GitSource.Branch:
		return Decision{Action: Ignore, Reason: "The push is to another branch than the git source's."}, nil
	}
	return Decision{Action: Build, Commit: c.Commit}, nil
}

func decideCall(a app.App, c Call) (Decision, error) {
	if a.GitSource == nil {
		if c.Image == "" {
			return Decision{}, problem.Of(problem.ImageRequired)
		}
		return Decision{Action: Deploy, Image: c.Image, Commit: c.Commit}, nil
	}
	if c.Image != "" {
		return Decision{}, problem.Of(problem.GitSourceAttached)
	}
	return Decision{Action: Build, Commit: c.Commit}, nil
}

// Remembered is how long a delivery's answer is kept.
const Remembered = 24 * time.Hour

// Delivery is a call that its sender may send again: what came of it is kept, and
// the same delivery with the same body is answered as the first time.
type Delivery struct {
	ID   string // of the app and of what the sender calls the delivery, 64 hex digits
	Body string // SHA-256 of the body, 64 hex digits

	// Token is the one that a pipeline has brought, which counts once; its ID is "" where
	// the call was proven by the app's own.
	Token Spent
}

// Spent is a token of a pipeline that a call was made with.
type Spent struct {
	ID    string    // of its issuer and of what that calls it, 64 hex digits
	Until time.Time // when nobody would take it any more
}

// NewDelivery makes the delivery that the sender of a call to an app knows by id.
func NewDelivery(ref app.Ref, id string, body []byte) Delivery {
	named := sha256.Sum256([]byte(ref.String() + "\n" + id)) // neither name holds a line break
	content := sha256.Sum256(body)
	return Delivery{ID: hex.EncodeToString(named[:]), Body: hex.EncodeToString(content[:])}
}

// NewRequest returns the delivery of a call of the management API about an app that its caller
// named. The same name from another caller, or about another app, is another delivery.
func NewRequest(caller string, ref app.Ref, name string, content []byte) Delivery {
	named := sha256.Sum256([]byte("request\n" + caller + "\n" + ref.String() + "\n" + name)) // no part holds a line break
	sum := sha256.Sum256(content)
	return Delivery{ID: hex.EncodeToString(named[:]), Body: hex.EncodeToString(sum[:])}
}

// NewSpent makes a pipeline's token one that was used.
func NewSpent(p app.Pipeline) Spent {
	named := sha256.Sum256([]byte("token\n" + p.Issuer + "\n" + p.TokenID)) // an issuer holds no line break
	return Spent{ID: hex.EncodeToString(named[:]), Until: p.Expires}
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
