package console

import (
	"cmp"
	"context"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/wire"
)

type tokenRow struct {
	wire.Token

	State badge
	Until string // last day, or expiry time
}

func (r *request) tokenRow(t wire.Token) tokenRow {
	state := cmp.Or(expiryBadge(t.Status, &t.ExpiresAt, r.s.now()), badge{Tone: toneGood, Text: "Active"})
	return tokenRow{Token: t, Until: expiryText(&t.ExpiresAt), State: state}
}

func (r *request) tokenRows(ctx context.Context) ([]tokenRow, error) {
	tokens, err := client.Collect(r.api.Tokens(ctx, r.project))
	rows := make([]tokenRow, len(tokens))
	for i, t := range tokens {
		rows[i] = r.tokenRow(t)
	}
	return rows, err
}

func toMembers(r *request) error { return r.redirect(r.inProject("members")) }

func newToken(r *request, f view.Form) error {
	if f.Values == nil {
		f = view.FilledForm("expires_at", r.s.now().UTC().Add(servicetoken.DefaultLife).Format(time.DateOnly))
	}
	return r.ask(tabMembers, view.FormPage{
		Title: "New service token", Action: r.inProject("tokens"), Button: "Create service token", Back: r.inProject("members"), Form: f,
		Lead: "A program signs in with the token, in this project only. Regardless of its role, it cannot change members or tokens, read or replace a webhook token, or add a trusted pipeline. " +
			"The full token is shown only once, on the next page.",
		Inputs: []view.Input{
			f.Text("name", "Name", labelHint+" The audit log shows the token's changes under this name.").Require().Placeholder("nightly"),
			f.Select("role", "Role", "", roles()).Require(),
			f.Text("expires_at", "Last valid day", "The token is valid through the end of this day (UTC), at most one year from now.").WithType("date").Require(),
		},
	})
}

type issuedTokenPage struct {
	Token tokenRow
	Full  string
	List  string
}

// createToken shows the full token in the response to the form. After a reload, the API rejects the
// form because the name exists.
func createToken(r *request) error {
	name, role, expires := r.PostForm.Get("name"), r.PostForm.Get("role"), expiryFor(r.PostForm.Get("expires_at"))
	t, full, err := r.api.CreateToken(r.Context(), r.project, wire.CreateToken{Name: &name, Role: &role, ExpiresAt: &expires})
	if err != nil {
		return r.again(err, newToken)
	}
	return r.show("tokens_issued", page{Title: "Service token created", Tab: tabMembers}, issuedTokenPage{
		Token: r.tokenRow(t), Full: string(full), List: r.inProject("members"),
	})
}

func askRevokeToken(r *request, f view.Form) error {
	t, err := r.api.ServiceToken(r.Context(), r.project, r.PathValue("token"))
	if err != nil {
		return err
	}
	return r.confirm(tabMembers, view.Confirmation{
		Title:  "Revoke the service token " + t.Name + "?",
		Lead:   "Calls with this token get 401 immediately. This cannot be undone. API keys and deployments that it created remain; the next page lists the keys.",
		Danger: true, Form: f,
		Action: r.inProject("tokens", t.ID, "revoke"), Button: "Revoke " + t.Name, Back: r.inProject("members"),
	})
}

type revokedTokenPage struct {
	Keys   []tokenKeyRow
	More   int
	Unread bool
	List   string
	Audit  string
}

type tokenKeyRow struct {
	wire.TokenKey

	Path string
}

func revokeToken(r *request) error {
	revoked, err := r.api.RevokeToken(r.Context(), r.project, r.PathValue("token"))
	switch {
	case isNotFound(err):
		return r.done(r.inProject("members"), noticeNothingChanged)
	case err != nil:
		return r.again(err, askRevokeToken)
	case revoked.KeyCount != nil && *revoked.KeyCount == 0:
		return r.done(r.inProject("members"), noticeTokenRevoked)
	}
	p := revokedTokenPage{Unread: revoked.KeyCount == nil, List: r.inProject("members"), Audit: r.inProject("audit")}
	for _, k := range revoked.Keys {
		p.Keys = append(p.Keys, tokenKeyRow{k, r.inProject("environments", k.Environment, "api-keys", k.KeyID)})
	}
	if !p.Unread {
		p.More = *revoked.KeyCount - len(p.Keys)
	}
	return r.show("tokens_revoked", page{Title: "Service token revoked", Tab: tabMembers}, p)
}
