package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) tokenGroup() *cobra.Command {
	g := a.group("token", "Manage service tokens for programs", a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	g.Long = `Manage service tokens. Programs sign in with them, for example to rotate keys every night or
for infrastructure as code. A token has a name, an expiry, and a role in one project. A
program passes the token in SLUICE_TOKEN, and the server in SLUICE_URL.

A token has the permissions of its role, with these exceptions: it cannot change members or
tokens, read or replace a webhook's token, or trust a pipeline. It can create and rotate API
keys.

A token belongs to its project: it stays valid when its creator leaves.`
	return g
}

func (a *application) tokenCreate() *cobra.Command {
	var role, expires string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a service token", SuggestFor: []string{"add", "new"},
		Long: `Create a service token for a project. The command needs the role owner. The full token is
shown only once and is not stored; a lost token must be replaced. --quiet prints only the full
token.

A token expires after 90 days, or at --expires, at most 366 days from now. --expires is a
number of days (30d), the last valid day (UTC) or an RFC 3339 timestamp.`,
		Example: `  sluice token create nightly --project shop --role developer --expires 90d
  SLUICE_TOKEN=$(sluice token create ci --role viewer --quiet)`,
	}
	cmd.Flags().StringVar(&role, "role", "", "role in the project: "+oneOf(app.Roles())+" (required)")
	cmd.Flags().StringVar(&expires, "expires", "", "days from now (30d), last valid day (2027-01-31) or RFC 3339 timestamp")
	a.fixed(cmd, "role", words(app.Roles())...)
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print only the full token")
	return a.command(inProject, cmd, func(ctx context.Context, w work) error {
		if role == "" {
			return usage("--role is required: %s", oneOf(app.Roles()))
		}
		ends, err := a.tokenExpiry(cmd, expires)
		if err != nil {
			return err
		}
		t, full, err := w.CreateToken(ctx, w.project, wire.CreateToken{Name: &w.args[0], Role: &role, ExpiresAt: ends})
		if err != nil {
			return err
		}
		return a.showIssued(t, full, *quiet)
	})
}

// tokenExpiry converts a number of days from now to a time, and any other value as [expiry] does.
// If it returns nil, the server sets the expiry.
func (a *application) tokenExpiry(cmd *cobra.Command, text string) (*string, error) {
	days, err := strconv.Atoi(strings.TrimSuffix(text, "d"))
	if err != nil || !strings.HasSuffix(text, "d") {
		return expiry(cmd, text)
	}
	ends := a.env.Now().UTC().Add(time.Duration(days) * 24 * time.Hour).Format(time.RFC3339)
	return &ends, nil
}

func (a *application) showIssued(t wire.Token, full client.Token, quiet bool) error {
	if quiet {
		return a.screen().Line("%s", string(full))
	}
	a.note("Copy this token now. It is shown only once and cannot be recovered.")
	return a.showFields(wire.IssuedToken{Token: t, FullToken: string(full)}, []render.Field{
		{Name: "Service token", Value: string(full)},
		{Name: "ID", Value: t.ID},
		{Name: "Name", Value: t.Name},
		{Name: "Project", Value: t.Project},
		{Name: "Role", Value: t.Role},
		{Name: "Expires", Value: expiryText(&t.ExpiresAt)},
	})
}

func (a *application) tokenList() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "list", Short: "List a project's service tokens", SuggestFor: []string{"ls"},
		Long: `List a project's service tokens. LAST USED is up to 5 minutes behind. Revoked tokens are not
listed; the audit log contains them.`,
		Example: `  sluice token list --project shop`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "service tokens", w.Tokens(ctx, w.project), []render.Column{
			{Name: "NAME", Whole: true},
			{Name: "ROLE"},
			{Name: "STATUS"},
			{Name: "EXPIRES"},
			{Name: "LAST USED", Rank: 1},
			{Name: "ID", Rank: 3},
			{Name: "CREATED BY", Rank: 2},
		}, func(t wire.Token) []render.Cell {
			used := "never"
			if t.LastUsedAt != nil {
				used = minute(*t.LastUsedAt)
			}
			cells := render.Plainly(t.Name, t.Role, t.Status, expiryText(&t.ExpiresAt), used, t.ID, t.CreatedBy)
			cells[2].Tone = statusTone(t.Status)
			return cells
		})
	})
}

func (a *application) tokenRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke TOKEN", Short: "Revoke a service token permanently", SuggestFor: []string{"delete", "remove", "rm"},
		Long: `Revoke a service token permanently. It stops working immediately, and another token can have
its name. TOKEN is its name or its ID. The command needs the role owner.

The command lists the API keys that the token created or rotated. They stay valid: if the
token has leaked, rotate or revoke them too.`,
		Example: `  sluice token revoke nightly --project shop`,
	}
	confirm := a.confirmation(cmd, requireYes)
	return a.command(inProject, cmd, func(ctx context.Context, w work) error {
		t, err := findToken(ctx, w, w.args[0])
		if err != nil {
			return err
		}
		if err := confirm.ask(ctx, "Revoke service token "+t.Name+" of "+w.project+" permanently?", w.args[0]); err != nil {
			return err
		}
		revoked, err := w.RevokeToken(ctx, w.project, t.ID)
		if err != nil {
			return err
		}
		return a.showRevoked(t, revoked)
	})
}

func (a *application) showRevoked(t wire.Token, revoked wire.RevokedToken) error {
	return a.show(revoked, func(s render.Screen) error {
		if err := s.Line("Service token %s of %s revoked.", t.Name, t.Project); err != nil {
			return err
		}
		n := revoked.KeyCount
		switch {
		case n == nil:
			a.note("The list of API keys that it issued is unavailable. To list them, run: sluice audit --project %s --actor token:%s", t.Project, t.Name)
			return nil
		case *n == 0:
			return nil
		}
		a.note("It issued these keys, which stay valid. Rotate or revoke them if the token has leaked.")
		rows := make([][]render.Cell, len(revoked.Keys))
		for i, k := range revoked.Keys {
			rows[i] = render.Plainly(k.KeyID, k.Name, k.Environment)
		}
		if err := s.Table([]render.Column{{Name: "KEY", Whole: true}, {Name: "NAME"}, {Name: "ENVIRONMENT"}}, rows); err != nil {
			return err
		}
		if more := *n - len(rows); more > 0 {
			a.note("Keys not listed here: %d. The audit log lists them.", more)
		}
		return nil
	})
}

func findToken(ctx context.Context, w work, named string) (wire.Token, error) {
	if servicetoken.ID(named).Valid() {
		t, err := w.ServiceToken(ctx, w.project, named)
		if !client.HasCode(err, "not_found") {
			return t, err
		}
	}
	for t, err := range w.Tokens(ctx, w.project) {
		switch {
		case err != nil:
			return wire.Token{}, err
		case t.Name == named, t.ID == named:
			return t, nil
		}
	}
	return wire.Token{}, failure{"not_found", exitNotFound, fmt.Sprintf("Project %s has no service token with the name or ID %q.", w.project, named)}
}
