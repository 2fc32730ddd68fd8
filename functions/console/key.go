package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyRows is how many keys a page shows: fewer than of other lists, since each has more to
// say.
const keyRows = 15

// key reads the request's key. One of another environment is not here.
func (r *request) key() (wire.Key, error) {
	k, err := r.api.Key(r.Context(), r.project, r.PathValue("key"))
	if err == nil && k.Environment != r.environment {
		err = notFound()
	}
	slices.Sort(k.Apps)
	return k, err
}

type keyPage struct {
	Key     keyRow
	Plan    view.PlanRow // of the key; its Path is "" when it is gone
	Usage   usageCard
	History []recordRow // the newest changes; none for who may not see the audit log
	Log     string      // path of all of them
	Refused string      // why the change was not made that led here
	Force   *force      // of the change that led here; nil of none
}

func showKey(r *request) error { return showKeyRefused(r, view.FormError{}) }

// showKeyRefused shows a key, with the reason why a change of it was not made.
func showKeyRefused(r *request, why view.FormError) error {
	p := keyPage{Refused: why.Message}
	var k wire.Key
	var g errgroup.Group
	g.Go(func() (err error) {
		if k, err = r.key(); err == nil {
			p.Plan, err = r.planOf(k)
		}
		return err
	})
	g.Go(read(&p.Usage, r.usage))
	if change := r.URL.Query().Get(changeField); change != "" {
		g.Go(read(&p.Force, func() (*force, error) { return r.force(change) }))
	}
	g.Go(func() (err error) {
		p.History, p.Log, err = r.history("api-keys/" + r.PathValue("key"))
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if p.Usage.lastSeen != nil {
		k.LastSeen = p.Usage.lastSeen
	}
	p.Key = r.keyRow(k, map[string]string{p.Plan.ID: p.Plan.Name})
	return r.show("keys_key", page{Status: max(why.Status, p.Usage.Form.Status()), Title: "API key " + p.Key.Label, Tab: tabKeys}, p)
}

// planOf reads a key's plan. A revoked key does not keep its plan from being deleted:
// then only the id is known.
func (r *request) planOf(k wire.Key) (view.PlanRow, error) {
	plan, err := r.api.Plan(r.Context(), k.Project, k.Environment, k.Plan)
	if client.HasCode(err, "not_found") {
		return view.PlanRow{Plan: wire.Plan{ID: k.Plan, Name: k.Plan}}, nil
	}
	return r.planRow(plan), err
}

// usageCard is a key's usage per day, of the days asked for.
type usageCard struct {
	Form     view.Form // of the window
	Quick    []quick
	Shown    *view.Chart // nil when the window was refused
	Moved    bool        // from was moved forward to the first day that is kept
	Earliest string      // the first day that is kept
	Path     string      // of the page

	lastSeen *string // as the report says, which may be newer than what the key's own answer does
}

// quick is a link to a window.
type quick struct {
	Label, Path string
	Current     bool
}

// usage reads the usage of the request's key: of the window that the address names, or of
// the last seven days. A window that the API refuses is refused beside the field that it is
// about; the rest of the page does not depend on it.
func (r *request) usage() (usageCard, error) {
	q, now := r.URL.Query(), r.s.now().UTC()
	from, to := q.Get("from"), q.Get("to")
	if from == "" && to == "" {
		from = now.AddDate(0, 0, 1-weekDays).Format(time.DateOnly)
	}
	card := usageCard{Path: r.URL.EscapedPath(), Earliest: view.LongDate(usage.EarliestKept(usage.DayOf(now)).String())}
	window, err := r.api.Usage(r.Context(), r.project, r.PathValue("key"), from, to)
	switch {
	case err == nil:
		shown := view.NewChart(window.Days, window.Incomplete...)
		card.lastSeen = window.LastSeen
		card.Shown, card.Moved = &shown, from != "" && from < window.From
		card.Form = view.FilledForm("from", window.From, "to", window.To)
	case gone(err):
		return card, err
	default:
		var ok bool
		if card.Form, ok = r.refused(err); !ok {
			return card, err
		}
		card.Form.Values, card.Form.Err.Field = q, windowInput(card.Form.Err.Code, from)
	}
	card.Quick = quicks(card.Path, window, now)
	return card, nil
}

// windowInput returns the input of the window that a code is about. A date that cannot be
// parsed is from, unless from can be.
func windowInput(code, from string) string {
	_, err := time.Parse(time.DateOnly, from)
	switch {
	case code == "invalid_window", from != "" && err != nil && (code == "invalid_date" || code == "invalid_parameter"):
		return "from"
	case code == "invalid_date", code == "invalid_parameter", code == "window_expired":
		return "to"
	}
	return ""
}

// quicks are the windows that are asked for most.
func quicks(path string, w wire.Usage, now time.Time) []quick {
	var all []quick
	for _, days := range []int{7, 30, 90} {
		from, to := now.AddDate(0, 0, 1-days).Format(time.DateOnly), now.Format(time.DateOnly)
		all = append(all, quick{
			Label: strconv.Itoa(days) + " days", Path: path + "?from=" + from + "&to=" + to, Current: w.From == from && w.To == to,
		})
	}
	return all
}

// wasStatus is the hidden field that holds the status that a form was made of.
const wasStatus = view.OriginalPrefix + "status"

// goneBefore is why nothing is done to a key that is revoked.
func goneBefore(what string) view.FormError {
	return view.FormError{
		Status:  http.StatusConflict,
		Message: "No changes were made: this key is revoked permanently and cannot be " + what + ". Create a new key instead.",
	}
}

// movedOn is why nothing is done to a key that is no longer as the form had it.
func movedOn(k wire.Key) view.FormError {
	return view.FormError{
		Status: http.StatusConflict, Message: "No changes were made: another user changed this key in the meantime. Its status is now " + k.Status + ". Review it below, then try again.",
	}
}

// asShown reads the request's key for a change of its status. It is stale when it is
// no longer as the form had it.
func (r *request) asShown(what string) (k wire.Key, stale *view.FormError, err error) {
	if k, err = r.key(); err != nil {
		return wire.Key{}, nil, err
	}
	was := r.PostForm.Get(wasStatus)
	switch {
	case was == k.Status || was == "active" && k.Status == "expired":
		return k, nil, nil
	case k.Status == "revoked":
		why := goneBefore(what)
		return k, &why, nil
	}
	why := movedOn(k)
	return k, &why, nil
}

// changeStatus makes a change of the request's key, unless the key is no longer as the
// form had it.
func (r *request) changeStatus(what string, change func(ctx context.Context, project, key string) (wire.Key, error), n notice) error {
	k, stale, err := r.asShown(what)
	if err != nil {
		return err
	}
	if stale != nil {
		return showKeyRefused(r, *stale)
	}
	changed, err := change(r.Context(), r.project, k.ID)
	if err != nil {
		if client.HasCode(err, "key_revoked") {
			return showKeyRefused(r, goneBefore(what))
		}
		return r.again(err, func(r *request, f view.Form) error { return showKeyRefused(r, *f.Err) })
	}
	return r.followed(r.keyRow(k, nil).Path, n, changed.Force())
}

func disableKey(r *request) error {
	return r.changeStatus("disabled", r.waiting().DisableKey, noticeKeyDisabled)
}

func enableKey(r *request) error {
	return r.changeStatus("enabled", r.waiting().EnableKey, noticeKeyEnabled)
}

func revokeKey(r *request) error {
	return r.changeStatus("revoked", r.waiting().RevokeKey, noticeKeyRevoked)
}

func askDisableKey(r *request) error {
	return r.askStatus("disabled", func(k keyRow) view.Confirmation {
		return view.Confirmation{
			Title:  "Disable " + k.Label + "?",
			Lead:   "Requests with " + k.ID + " are denied within seconds, until you enable the key again.",
			Facts:  []view.Comparison{{Name: "Status", Now: k.State.Text, Then: "Disabled"}, {Name: "Apps", Now: k.Scope, Then: k.Scope}},
			Action: k.Path + "/disable", Button: "Disable key", Danger: true,
		}
	})
}

func askRevokeKey(r *request) error {
	return r.askStatus("revoked", func(k keyRow) view.Confirmation {
		return view.Confirmation{
			Title: "Revoke " + k.Label + "?",
			Lead:  "Requests with " + k.ID + " are denied permanently, within seconds. This cannot be undone. To deny requests temporarily, disable the key.",
			Points: []string{
				"Clients that use it get 401 invalid_key.",
				"Its usage remains visible for 92 days.",
				"To replace the key, create a new one. Its prefix will differ.",
			},
			Facts:  []view.Comparison{{Name: "Status", Now: k.statusText(), Then: "Revoked"}, {Name: "Last seen", Now: k.Seen, Then: k.Seen}},
			Action: k.Path + "/revoke", Button: "Revoke key", Danger: true,
		}
	})
}

// askStatus asks before the request's key changes its status.
func (r *request) askStatus(what string, ask func(k keyRow) view.Confirmation) error {
	k, err := r.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKeyRefused(r, goneBefore(what))
	}
	row := r.keyRow(k, nil)
	c := ask(row)
	c.Back, c.Hidden = row.Path, []view.HiddenInput{{Name: wasStatus, Value: k.Status}}
	return r.confirm(tabKeys, c)
}
