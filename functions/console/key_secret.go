package console

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// onceField is the hidden field with an idempotency key. The response to the form shows the full
// key: it could be shown after a redirect only if it were stored. A reload submits the form again,
// but the API issues only one key for it (see [client.Client.WithIdempotencyKey]).
const onceField = "once"

const onceLength = 26

func (r *request) issueOnce() (*client.Client, error) {
	name := r.PostForm.Get(onceField)
	if len(name) != onceLength || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return nil, httpError{Status: http.StatusBadRequest, Title: "Invalid form", Text: "The form is damaged. No changes were made. Reload the page and try again."}
	}
	return r.api.WithIdempotencyKey(name), nil
}

// issuedCookie contains "ONCE.ID" for the last issued key: the idempotency key of the form and the ID
// of the key. With it, a reload of the response redirects to the key.
const issuedCookie = "__Host-sluice_issued"

const issuedSeconds = 24 * 60 * 60

func (r *request) noteIssued(id string) {
	http.SetCookie(r.w, cookieOf(issuedCookie, r.PostForm.Get(onceField)+"."+id, issuedSeconds))
}

// issuedBefore returns the path of the key that the same form has issued. If the cookie does not
// belong to this form, it returns the path of the list.
func (r *request) issuedBefore() string {
	if c, err := r.Cookie(issuedCookie); err == nil {
		if id, ok := strings.CutPrefix(c.Value, r.PostForm.Get(onceField)+"."); ok {
			return r.inEnvironment("api-keys", id)
		}
	}
	return r.inEnvironment("api-keys")
}

type issuedPage struct {
	Key     keyRow
	Full    string
	Rotated bool
	List    string
}

func (r *request) showIssued(k wire.Key, full client.FullKey, rotated bool) error {
	title := "Key created"
	if rotated {
		title = "Key rotated"
	}
	return r.show("keys_issued", page{Title: title, Tab: tabKeys}, issuedPage{
		Key: r.keyRow(k, nil), Full: string(full), Rotated: rotated, List: r.inEnvironment("api-keys"),
	})
}

// wasPrevious is the hidden field with the expiry of the previous secret. It detects a rotation in
// the meantime.
const wasPrevious = view.OriginalPrefix + "previous"

type rotatePage struct {
	Key    keyRow
	Hidden []view.HiddenInput
	Grace  view.Input
	Form   view.Form
}

func graces() []view.Option {
	return []view.Option{
		{Value: "0s", Label: "None"},
		{Value: "1h", Label: "1 hour"},
		{Value: "24h", Label: "24 hours"},
		{Value: "168h", Label: "7 days"},
		{Value: "720h", Label: "30 days"},
	}
}

func askRotate(r *request, f view.Form) error {
	k, err := r.key()
	if err != nil {
		return err
	}
	if k.Status == "revoked" {
		return showKeyRefused(r, keyRevoked("rotated"))
	}
	if f.Values == nil {
		f = view.FilledForm("grace", "24h")
	}
	row := r.keyRow(k, nil)
	return r.show("keys_rotate", page{Status: f.Status(), Title: "Rotate " + row.Label, Tab: tabKeys}, rotatePage{
		Key: row, Form: f,
		Hidden: []view.HiddenInput{{Name: onceField, Value: rand.Text()}, {Name: wasStatus, Value: k.Status}, {Name: wasPrevious, Value: previousOf(k)}},
		Grace:  f.Select("grace", "Grace period", "The current secret stays valid for this time, so that you can update all clients.", graces()).Require(),
	})
}

func previousOf(k wire.Key) string {
	if k.PreviousSecretExpiresAt == nil {
		return ""
	}
	return k.PreviousSecretExpiresAt.Format(time.RFC3339Nano)
}

func rotateKey(r *request) error {
	api, err := r.issueOnce()
	if err != nil {
		return err
	}
	grace, err := time.ParseDuration(r.PostForm.Get("grace"))
	if err != nil {
		return askRotate(r, r.invalid("grace", "Select a grace period."))
	}
	k, stale, err := r.asShown("rotated")
	if err != nil {
		return err
	}
	if stale != nil {
		return showKeyRefused(r, *stale)
	}
	if now := previousOf(k); now != "" && now != r.PostForm.Get(wasPrevious) {
		return showKeyRefused(r, rotatedSince())
	}
	rotated, full, err := api.RotateKey(r.Context(), r.project, k.ID, grace)
	if err != nil {
		return r.notRotated(err)
	}
	return r.showIssued(rotated, full, true)
}

// rotatedSince returns the error for a stale rotation form. Another rotation would replace the new
// secret.
func rotatedSince() view.FormError {
	return view.FormError{
		Status: http.StatusConflict,
		Message: "No changes were made: this key was rotated after the form was loaded, by another user or by the same form. " +
			"The new secret was shown only once. If no one has it, rotate the key again.",
	}
}

func (r *request) notRotated(err error) error {
	switch {
	case client.HasCode(err, "already_issued"), client.HasCode(err, "idempotency_key_reused"):
		return showKeyRefused(r, rotatedSince())
	case client.HasCode(err, "key_revoked"):
		return showKeyRefused(r, keyRevoked("rotated"))
	}
	return r.again(err, askRotate)
}
