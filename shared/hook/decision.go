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

// Action is the effect of a call on an app.
type Action string

// The actions.
const (
	Deploy Action = "deploy"
	Build  Action = "build"
	Ignore Action = "ignore"
	Pong   Action = "pong" // respond to a ping
)

// Decision is the result of [Decide].
type Decision struct {
	Action Action
	Image  string // to deploy
	Commit string // to build or to record, or ""
	Reason string // for ignoring the call
}

const branchPrefix = "refs/heads/"

// Decide returns the effect of a call on an app. A push starts a build only if its ref is exactly
// the branch of the app's git source. Decide returns an image_required or git_source_attached
// problem if the call does not match the kind of app.
func Decide(a app.App, c Call) (Decision, error) {
	switch c.Event {
	case Ping:
		return Decision{Action: Pong}, nil
	case Push:
		return decidePush(a, c)
	case NoEvent:
		return decideCall(a, c)
	}
	return Decision{Action: Ignore, Reason: "Only push events trigger a deployment."}, nil
}

func decidePush(a app.App, c Call) (Decision, error) {
	branch, isBranch := strings.CutPrefix(c.Ref, branchPrefix)
	switch {
	case !isBranch:
		return Decision{Action: Ignore, Reason: "The push is not to a branch."}, nil
	case c.Deleted:
		return Decision{Action: Ignore, Reason: "The push deletes a branch."}, nil
	case a.GitSource == nil:
		return Decision{}, problem.New(problem.ImageRequired, "The app has no git source, so a push cannot build it. Set a git source, or remove the webhook from the git provider.")
	case branch != a.GitSource.Branch:
		return Decision{Action: Ignore, Reason: "The push is not to the git source's branch."}, nil
	}
	return Decision{Action: Build, Commit: c.Commit}, nil
}

func decideCall(a app.App, c Call) (Decision, error) {
	if a.GitSource == nil {
		if c.Image == "" {
			return Decision{}, problem.FromCode(problem.ImageRequired)
		}
		return Decision{Action: Deploy, Image: c.Image, Commit: c.Commit}, nil
	}
	if c.Image != "" {
		return Decision{}, problem.FromCode(problem.GitSourceAttached)
	}
	return Decision{Action: Build, Commit: c.Commit}, nil
}

// ReplayWindow is the retention period of stored responses.
const ReplayWindow = 24 * time.Hour

// CallID identifies a call that can be repeated: the same delivery with the same body gets the
// first response again.
type CallID struct {
	ID   string // hash of the app and the sender's ID, in hex
	Body string // SHA-256 of the body, in hex

	// Token is the pipeline's token. Its ID is "" if the app's token authenticated the call.
	Token UsedToken
}

// UsedToken is a pipeline token that a call has used.
type UsedToken struct {
	ID    string    // hash of the issuer and the token's ID, in hex
	Until time.Time // the ID is stored until then
}

// NewDelivery returns the delivery of a call. id is the sender's ID for the call ([DeliveryOf]).
func NewDelivery(ref app.Ref, id string, body []byte) CallID {
	named := sha256.Sum256([]byte(ref.String() + "\n" + id)) // neither part contains a line break
	content := sha256.Sum256(body)
	return CallID{ID: hex.EncodeToString(named[:]), Body: hex.EncodeToString(content[:])}
}

// NewRequest returns the delivery of a management API call with an idempotency key. Keys are
// separate for each caller and app.
func NewRequest(caller string, ref app.Ref, name string, content []byte) CallID {
	named := sha256.Sum256([]byte("request\n" + caller + "\n" + ref.String() + "\n" + name)) // as above
	sum := sha256.Sum256(content)
	return CallID{ID: hex.EncodeToString(named[:]), Body: hex.EncodeToString(sum[:])}
}

// NewSpent returns the used token of a pipeline.
func NewSpent(p app.Pipeline) UsedToken {
	named := sha256.Sum256([]byte("token\n" + p.Issuer + "\n" + p.TokenID)) // an issuer contains no line break
	return UsedToken{ID: hex.EncodeToString(named[:]), Until: p.Expires}
}

// StoredResponse is the stored response to a call.
type StoredResponse struct {
	Action   Action `firestore:"action"`
	Revision int64  `firestore:"revision"`
	Build    int64  `firestore:"build"`
	Image    string `firestore:"image"` // with Deploy
	Commit   string `firestore:"commit"`
	Reason   string `firestore:"reason"` // with Ignore
}

// RecordedWork is a decision with the work to record, which has no number yet: Revision for Deploy,
// Build for Build.
type RecordedWork struct {
	Decision
	Revision deploy.Revision
	Build    deploy.Build
}

// Answer returns the response to store. number is the number of the recorded revision or build.
func (o RecordedWork) Answer(number int64) StoredResponse {
	a := StoredResponse{Action: o.Action, Image: o.Image, Commit: o.Commit, Reason: o.Reason}
	switch o.Action {
	case Deploy:
		a.Revision = number
	case Build:
		a.Build = number
	case Ignore, Pong:
	}
	return a
}
