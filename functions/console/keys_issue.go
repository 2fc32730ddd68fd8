package console

import (
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// A full key is shown by the answer to the form itself: a redirect would need a place
// to keep it. Loading that page again sends the form again, so each form carries a
// name of its own, and the API issues a key once for it (see [client.Client.Once]).
const onceField = "once"

// onceLength is that of rand.Text.
const onceLength = 26

// issueOnce is the API, for a call that issues a key for the sent form and for no
// other sending of it.
func (v *visit) issueOnce() (*client.Client, error) {
	name := v.typed(onceField)
	if len(name) != onceLength || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return nil, troubled{Status: 400, Title: "That form could not be read", Text: "It is damaged. Nothing was done; load the page again."}
	}
	return v.api.Once(name), nil
}

// issuedPage shows a full key, this once.
type issuedPage struct {
	Key      keyRow
	Full     string
	Rotated  bool
	Previous time.Time // until when the secret before is valid; zero when it ended
	List     string    // path
}

func (v *visit) showIssued(k wire.Key, full client.FullKey, rotated bool) error {
	p := issuedPage{Key: v.keyRow(k, nil), Full: string(full), Rotated: rotated, List: v.inEnvironment("api-keys")}
	if rotated && k.PreviousSecretExpiresAt != nil {
		p.Previous = *k.PreviousSecretExpiresAt
	}
	return v.show("keys_issued", sheet{Title: "Copy the key now", Tab: tabKeys}, p)
}

// sentBefore tells that the form has issued a key before.
func sentBefore(err error) (troubled, bool) {
	if !client.HasCode(err, "already_issued") {
		return troubled{}, false
	}
	return troubled{
		Status: 409, Title: "This form was sent before",
		Text: "It has issued its key, which was shown that once, so nothing was done now. A key that was not copied cannot be shown again: rotate it, or revoke it and create another one.",
	}, true
}

func createKey(v *visit) error {
	typed, wrong := v.typedKey()
	if wrong != nil {
		return newKey(v, *wrong)
	}
	api, err := v.issueOnce()
	if err != nil {
		return err
	}
	k, full, err := api.CreateKey(v.ctx, v.project, v.environment, wire.CreateKey{
		Plan: &typed.plan, Name: typed.name, Apps: typed.apps, ExpiresAt: typed.expires,
	})
	if err != nil {
		if again, ok := sentBefore(err); ok {
			return again
		}
		f, ok := v.refused(err, keyFields())
		if !ok {
			return err
		}
		return newKey(v, f)
	}
	return v.showIssued(k, full, false)
}
