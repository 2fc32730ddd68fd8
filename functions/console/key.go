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

// key reads the request's key. It returns notFound if the key belongs to another environment.
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
	Plan    view.PlanRow // Path is "" if the plan was deleted
	Usage   usageCard
	History []recordRow // newest changes; empty without access to the audit log
	Log     string
	Refused string // error of the rejected change that led here
}

func showKey(r *request) error { return showKeyRefused(r, view.FormError{}) }

func showKeyRefused(r *request, why view.FormError) error {
	p := keyPage{Refused: why.Message}
	var change *propagation
	var k wire.Key
	var g errgroup.Group
	g.Go(func() (err error) {
		if k, err = r.key(); err == nil {
			p.Plan, err = r.planOf(k)
		}
		return err
	})
	g.Go(read(&p.Usage, r.usage))
	g.Go(read(&change, r.change))
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
	return r.show("keys_key", page{Status: max(why.Status, p.Usage.Form.Status()), Title: "API key " + p.Key.Label, Tab: tabKeys, Propagation: change}, p)
}

func (r *request) planOf(k wire.Key) (view.PlanRow, error) {
	plan, err := r.api.Plan(r.Context(), k.Project, k.Environment, k.Plan)
	if client.HasCode(err, "not_found") {
		return view.PlanRow{Plan: wire.Plan{ID: k.Plan, Name: k.Plan}}, nil
	}
	return r.planRow(plan), err
}

type usageCard struct {
	Form     view.Form
	Quick    []quick
	Shown    *view.Chart // nil if the time range was rejected
	Moved    bool        // the time range was cut to the stored days
	Earliest string
	Path     string

	lastSeen *string // may be newer than the key's LastSeen
}

type quick struct {
	Label, Path string
	Current     bool
}

// usage reads the usage of the request's key in the time range of the query, by default the last
// seven days. If the API rejects the range, the card shows the error.
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
	case isNotFound(err):
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

const wasStatus = view.OriginalPrefix + "status"

func keyRevoked(what string) view.FormError {
	return view.FormError{
		Status:  http.StatusConflict,
		Message: "No changes were made: this key is revoked permanently and cannot be " + what + ". Create a new key instead.",
	}
}

func keyChanged(k wire.Key) view.FormError {
	return view.FormError{
		Status: http.StatusConflict, Message: "No changes were made: another user changed this key in the meantime. Its status is now " + k.Status + ". Review it below, then try again.",
	}
}

// asShown reads the request's key. stale is an error if the key's status differs from that in the
// form, unless an active key has expired in the meantime.
func (r *request) asShown(what string) (k wire.Key, stale *view.FormError, err error) {
	if k, err = r.key(); err != nil {
		return wire.Key{}, nil, err
	}
	was := r.PostForm.Get(wasStatus)
	switch {
	case was == k.Status || was == "active" && k.Status == "expired":
		return k, nil, nil
	case k.Status == "revoked":
		why := keyRevoked(what)
		return k, &why, nil
	}
	why := keyChanged(k)
	return k, &why, nil
}

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
			return showKeyRefused(r, keyRevoked(what))
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
	return r.changeStatus("revoked again", r.waiting().RevokeKey, noticeKeyRevoked)
}

func askDisableKey(r *request) error {
	return r.askStatus("disabled", func(k keyRow) view.Confirmation {
		return view.Confirmation{
			Title:  "Disable " + k.Label + "?",
			Lead:   "Requests with " + k.ID + " are denied within seconds, until you enable the key again.",
			Facts:  []view.Comparison{{Name: "Status", Now: k.statusText(), Then: "Disabled"}, {Name: "Apps", Now: k.Scope, Then: k.Scope}},
			Action: k.Path + "/disable", Button: "Disable key", Danger: true,
		}
	})
}

func askRevokeKey(r *request) error {
	return r.askStatus("revoked again", func(k keyRow) view.Confirmation {
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

func (r *request) askStatus(what string, ask func(k keyRow) view.Confirmation) error {
	k, err := r.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKeyRefused(r, keyRevoked(what))
	}
	row := r.keyRow(k, nil)
	c := ask(row)
	c.Back, c.Hidden = row.Path, []view.HiddenInput{{Name: wasStatus, Value: k.Status}}
	return r.confirm(tabKeys, c)
}
