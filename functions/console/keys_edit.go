package console

import (
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyValues is a key as its form shows it; the apps are compared as one value.
func keyValues(k wire.Key) values {
	date, _ := lastDay(k.ExpiresAt)
	return values{"name": k.Name, "plan": k.Plan, "scope": strings.Join(k.Apps, " "), "expires": date}
}

func editKey(v *visit) error {
	k, o, err := v.keyAndOffers()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKey(v, goneBefore("changed"))
	}
	now := keyValues(k)
	f := now.form()
	f.Typed.Set("scope", scopeAll)
	if len(k.Apps) > 0 {
		f.Typed.Set("scope", scopeSome)
		f.Typed["apps"] = k.Apps
	}
	return v.askKeyChange(k, o, f, now.based())
}

// keyAndOffers reads the visit's key and what its form has to choose from.
func (v *visit) keyAndOffers() (k wire.Key, o offered, err error) {
	o, err = v.offers(func() (err error) {
		k, err = v.key()
		return err
	})
	return k, o, err
}

func (v *visit) askKeyChange(k wire.Key, o offered, f form, on []based) error {
	row := v.keyRow(k, nil)
	p := keyForm{
		Title: "Edit " + row.Label, Action: row.Path + "/edit", Button: "Save key", Back: row.Path, Based: on, Form: f,
		Lead: "The key itself stays as it is. Changes hold within seconds.",
	}
	if _, exact := lastDay(k.ExpiresAt); !exact {
		p.Lead += " It expires in the middle of a day, " + row.Until + ", unless you choose another last day."
	}
	return v.askKey(p, o, k.Apps)
}

func changeKey(v *visit) error {
	current, o, err := v.keyAndOffers()
	if err != nil {
		return err
	}
	if current.Status == "revoked" {
		return showKey(v, goneBefore("changed"))
	}
	now := keyValues(current)
	typed, wrong := v.typedKey()
	if wrong != nil {
		return v.askKeyChange(current, o, *wrong, v.basedOn(now))
	}
	sent := v.r.PostForm["scope"]
	v.r.PostForm.Set("scope", strings.Join(typed.apps, " ")) // as keyValues has it
	changed, overtaken := v.changes(now)
	v.r.PostForm["scope"] = sent
	if overtaken != nil {
		if overtaken.Refusal.Field == "scope" {
			overtaken.Refusal.Field = "apps"
		}
		return v.askKeyChange(current, o, *overtaken, v.basedOn(now))
	}
	if len(changed) > 0 {
		_, err = v.api.UpdateKey(v.ctx, v.project, current.ID, typed.update(changed))
	}
	if err != nil {
		if client.HasCode(err, "key_revoked") {
			return showKey(v, goneBefore("changed"))
		}
		f, ok := v.refused(err, keyFields())
		if !ok {
			return err
		}
		return v.askKeyChange(current, o, f, v.basedOn(now))
	}
	return v.done(v.keyRow(current, nil).Path, changed.notice(noticeKeyChanged))
}

// update names the fields that change, and no others.
func (k typedKey) update(changed changes) wire.UpdateKey {
	var u wire.UpdateKey
	if changed["name"] {
		u.Name = wire.Some(k.name)
	}
	if changed["plan"] {
		u.Plan = wire.Some(k.plan)
	}
	if changed["scope"] {
		u.Apps = wire.Some(slices.Clone(k.apps))
	}
	if changed["expires"] {
		u.ExpiresAt = wire.Optional[string]{Set: true, Value: k.expires}
	}
	return u
}
