package deploy

import (
	"time"

	"github.com/sluicegate/sluice/shared/app"
)

// Outcome is what an announcement tells.
type Outcome string

// The outcomes of a deployment.
const (
	Deployed   Outcome = "deployed"   // the app's first revision became live
	Upgraded   Outcome = "upgraded"   // a revision took another one's place
	RolledBack Outcome = "rolledback" // so did a rollback
	Broke      Outcome = "failed"
)

// Announcement is the end of a deployment, to be told to the outside at least once.
type Announcement struct {
	ID          string // unique for ever; the same each time it is sent
	App         app.Ref
	Project     string
	Environment string
	Outcome     Outcome
	Revision    Revision // as it was then
	At          time.Time
}

// Announce makes the announcement of a revision that is finished; first says that
// no other one was live before it.
func Announce(a app.App, r Revision, first bool) Announcement {
	n := Announcement{App: a.Ref(), Project: a.Project, Environment: a.Environment, Revision: r, Outcome: Upgraded, At: r.SettledAt}
	switch {
	case r.Status == Failed:
		n.Outcome = Broke
	case r.Trigger == Rollback:
		n.Outcome = RolledBack
	case first:
		n.Outcome = Deployed
	}
	return n
}
