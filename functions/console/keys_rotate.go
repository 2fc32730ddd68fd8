package console

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// wasPrevious is the hidden field that holds until when the secret before was valid:
// another rotation meanwhile changes it.
const wasPrevious = wasMark + "previous"

// rotatePage asks for a rotation, and how long the current secret stays valid.
type rotatePage struct {
	Key      keyRow
	Previous time.Time // the previous secret is valid until then; zero when there is none
	Based    []based
	Once     string
	Grace    input
	Form     form
}

// graces are what can be chosen; the API takes any duration up to 30 days.
func graces() []option {
	return []option{
		{Value: "0s", Label: "End it at once"},
		{Value: "1h", Label: "1 hour"},
		{Value: "24h", Label: "24 hours"},
		{Value: "168h", Label: "7 days"},
		{Value: "720h", Label: "30 days"},
	}
}

func askRotate(v *visit, f form) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKey(v, goneBefore("rotated"))
	}
	if f.Typed == nil {
		f = filled("grace", "24h")
	}
	row := v.keyRow(k, nil)
	p := rotatePage{
		Key: row, Once: rand.Text(), Form: f,
		Based: []based{{Name: wasStatus, Value: k.Status}, {Name: wasPrevious, Value: previousOf(k)}},
		Grace: f.Select("grace", "The current secret stays valid for", "Time to put the new key in place everywhere.", graces()).Need(),
	}
	if k.PreviousSecretExpiresAt != nil {
		p.Previous = *k.PreviousSecretExpiresAt
	}
	return v.show("keys_rotate", sheet{Status: f.Status(), Title: "Rotate " + row.Label, Tab: tabKeys}, p)
}

func previousOf(k wire.Key) string {
	if k.PreviousSecretExpiresAt == nil {
		return ""
	}
	return k.PreviousSecretExpiresAt.Format(time.RFC3339Nano)
}

func rotateKey(v *visit) error {
	api, err := v.issueOnce()
	if err != nil {
		return err
	}
	grace, err := time.ParseDuration(v.typed("grace"))
	if err != nil {
		return askRotate(v, v.sent("grace", "Choose how long the current secret stays valid."))
	}
	k, stale, err := v.asShown("rotated")
	if err != nil {
		return err
	}
	if stale != nil {
		return showKey(v, *stale)
	}
	if now := previousOf(k); now != "" && now != v.typed(wasPrevious) {
		return showKey(v, rotatedSince())
	}
	rotated, full, err := api.RotateKey(v.ctx, v.project, k.ID, grace)
	if err != nil {
		return v.notRotated(err)
	}
	return v.showIssued(rotated, full, true)
}

// rotatedSince is why a key is not rotated by a form that is out of date: it would
// end the secret that was issued meanwhile. It may be the form's own, sent before.
func rotatedSince() refusal {
	return refusal{
		Status: http.StatusConflict,
		Message: "Nothing was done: this key has been rotated since that page was loaded, by somebody else or by that form itself. " +
			"Its new secret was shown that once; if nobody has it, rotate again.",
	}
}

// notRotated answers for a rotation that the API has refused.
func (v *visit) notRotated(err error) error {
	switch {
	case client.HasCode(err, "already_issued"):
		return showKey(v, rotatedSince())
	case client.HasCode(err, "key_revoked"):
		return showKey(v, goneBefore("rotated"))
	}
	f, ok := v.refused(err, map[string]string{"invalid_grace": "grace"})
	if !ok {
		return err
	}
	return askRotate(v, f)
}
