package hook

import (
	"strings"

	"github.com/sluicegate/sluice/shared/app"
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
