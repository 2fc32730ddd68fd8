package console

import (
	"net/url"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const changeField = "change"

// waitTimeout is the time for which a form waits until a change is in force. The next page shows
// the progress after that.
const waitTimeout = time.Second

func (r *request) waiting() *client.Client { return r.api.WithWait(waitTimeout) }

type propagation struct {
	wire.InForce

	Live view.Polling
}

func (f propagation) Unlisted() bool { return !f.Everywhere && len(f.Replicas) == 0 }

// change reads the propagation of the change in the query, or nil.
func (r *request) change() (*propagation, error) {
	change := r.URL.Query().Get(changeField)
	if change == "" {
		return nil, nil //nolint:nilnil // no change led to the page
	}
	return r.propagation(change)
}

func (r *request) propagation(change string) (*propagation, error) {
	f, err := r.api.Change(r.Context(), r.project, change)
	if client.HasCode(err, "not_found") {
		return nil, nil //nolint:nilnil // the page then shows no change
	}
	if err != nil {
		return nil, err
	}
	return &propagation{f, view.NewPolling(!f.Everywhere, r.inProject("changes", change), f)}, nil
}

func showChange(r *request) error {
	f, err := r.propagation(r.PathValue(changeField))
	if err == nil && f == nil {
		err = notFound()
	}
	if err != nil {
		return err
	}
	return r.follow(f.Live, "keys_key", "propagation", f)
}

func (r *request) followed(path string, n notice, f *wire.InForce) error {
	if f != nil && f.Change != "" {
		path += "?" + url.Values{changeField: {f.Change}}.Encode()
	}
	return r.done(path, n)
}
