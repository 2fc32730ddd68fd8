package console

import (
	"net/url"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// changeField is the query that names the change which a page was reached by.
const changeField = "change"

// patience is how long a form waits for the checkers to follow its change: what takes
// longer is shown by the page that comes after.
const patience = time.Second

// waiting is the API, for a change that the checkers are to follow.
func (r *request) waiting() *client.Client { return r.api.Waiting(patience) }

// force tells whether the checkers follow a change.
type force struct {
	wire.InForce

	Live view.Polling
}

// Unlisted tells whether it is not even known which checkers the change waits for.
func (f force) Unlisted() bool { return !f.Everywhere && len(f.Replicas) == 0 }

// force returns where a change is in force, or nil if there is no such change.
func (r *request) force(change string) (*force, error) {
	f, err := r.api.Change(r.Context(), r.project, change)
	if client.HasCode(err, "not_found") { // an address that somebody has made up
		return nil, nil //nolint:nilnil // the page shows no change then
	}
	if err != nil {
		return nil, err
	}
	return &force{f, view.NewPolling(!f.Everywhere, r.inProject("changes", change), f)}, nil
}

// showChange answers the part of a page that tells of a change.
func showChange(r *request) error {
	f, err := r.force(r.PathValue(changeField))
	if err == nil && f == nil {
		err = notFound()
	}
	if err != nil {
		return err
	}
	return r.follow(f.Live, "keys_key", "force", keyPage{Force: f})
}

// followed goes on to the page of what was changed, which tells whether the checkers
// follow.
func (r *request) followed(path string, n notice, f *wire.InForce) error {
	if f != nil && f.Change != "" {
		path += "?" + url.Values{changeField: {f.Change}}.Encode()
	}
	return r.done(path, n)
}
