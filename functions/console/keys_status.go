package console

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// wasStatus is the hidden field that holds the status that a form was based on.
const wasStatus = wasMark + "status"

// goneBefore is why nothing is done to a key that is revoked.
func goneBefore(what string) refusal {
	return refusal{
		Status:  http.StatusConflict,
		Message: "Nothing was done: this key is revoked, which is final, so it cannot be " + what + ". Create a new key instead.",
	}
}

// movedOn is why nothing is done to a key that is no longer as the form had it.
func movedOn(k wire.Key) refusal {
	return refusal{
		Status: http.StatusConflict, Message: "Nothing was done: somebody else has changed this key meanwhile. It is " + k.Status + " now, as shown below.",
	}
}

// asShown reads the visit's key for a change of its status. It is stale when it is
// no longer as the form had it.
func (v *visit) asShown(what string) (k wire.Key, stale *refusal, err error) {
	if k, err = v.key(); err != nil {
		return wire.Key{}, nil, err
	}
	was := v.typed(wasStatus)
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

// changeStatus makes a change of the visit's key, unless the key is no longer as the
// form had it.
func (v *visit) changeStatus(what string, change func(k wire.Key) error, n notice) error {
	k, stale, err := v.asShown(what)
	if err != nil {
		return err
	}
	if stale != nil {
		return showKey(v, *stale)
	}
	if err := change(k); err != nil {
		if client.HasCode(err, "key_revoked") {
			return showKey(v, goneBefore(what))
		}
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return showKey(v, *f.Refusal)
	}
	return v.done(v.keyRow(k, nil).Path, n)
}

func disableKey(v *visit) error {
	return v.changeStatus("disabled", func(k wire.Key) error {
		_, err := v.api.DisableKey(v.ctx, v.project, k.ID)
		return err
	}, noticeKeyDisabled)
}

func enableKey(v *visit) error {
	return v.changeStatus("enabled", func(k wire.Key) error {
		_, err := v.api.EnableKey(v.ctx, v.project, k.ID)
		return err
	}, noticeKeyEnabled)
}

func revokeKey(v *visit) error {
	return v.changeStatus("revoked", func(k wire.Key) error {
		_, err := v.api.RevokeKey(v.ctx, v.project, k.ID)
		return err
	}, noticeKeyRevoked)
}

func askDisableKey(v *visit) error {
	return v.askStatus("disabled", func(k keyRow) confirmation {
		return confirmation{
			Title:  "Disable " + k.Label + "?",
			Lead:   "Requests with " + k.ID + " are refused within seconds, until the key is enabled again.",
			Facts:  []fact{{Name: "Status", Now: k.State.Text, Then: "Disabled"}, {Name: "Apps", Now: k.Scope, Then: k.Scope}},
			Action: k.Path + "/disable", Button: "Disable key", Danger: true,
		}
	})
}

func askRevokeKey(v *visit) error {
	return v.askStatus("revoked", func(k keyRow) confirmation {
		return confirmation{
			Title: "Revoke " + k.Label + "?",
			Lead:  "Requests with " + k.ID + " are refused within seconds, for good. This cannot be undone; to stop a key for a while, disable it.",
			Points: []string{
				"Clients that use it get 401 invalid_key.",
				"Its usage can still be looked at.",
				"It can only be replaced by a new key, with another prefix.",
			},
			Facts:  []fact{{Name: "Status", Now: k.statusText(), Then: "Revoked"}, {Name: "Last seen", Now: k.Seen, Then: k.Seen}},
			Action: k.Path + "/revoke", Button: "Revoke key", Danger: true,
		}
	})
}

// statusText is the status in a word.
func (k keyRow) statusText() string {
	if k.State.Text == "" {
		return k.Expiry.Text
	}
	return k.State.Text
}

// askStatus asks before the visit's key changes its status.
func (v *visit) askStatus(what string, ask func(k keyRow) confirmation) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKey(v, goneBefore(what))
	}
	row := v.keyRow(k, nil)
	c := ask(row)
	c.Back, c.Based = row.Path, []based{{Name: wasStatus, Value: k.Status}}
	return v.confirm(tabKeys, c)
}
