package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/snippet"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) trustGroup() *cobra.Command {
	g := a.group("trust", "Pipelines that deploy an app without a secret", a.trustAdd(), a.trustList(), a.trustRemove())
	g.Long = `Pipelines that deploy an app without a secret. A call of the webhook then brings a token
that the pipeline's provider has issued to it (OpenID Connect) in place of the webhook's own
token. A trust says which pipelines those are: the issuer of the token, whom it is meant for,
and patterns that its claims must match.

The installation's operator names the issuers that are believed at all.`
	return g
}

// trustFlags say which pipelines are meant.
type trustFlags struct {
	repositories map[app.Provider]*string
	where        app.Where
	issuer       string
	audience     string
	claims       []string
}

func (a *application) trustAdd() *cobra.Command {
	f := trustFlags{repositories: map[app.Provider]*string{}}
	cmd := &cobra.Command{
		Use: "add APP", Short: "Let pipelines deploy an app without a secret", SuggestFor: []string{"create", "set"},
		Long: `Let pipelines deploy an app without a secret, and print what to put into CI for it.

Values are exact, or patterns: "*" is any text without "/", "**" is any text. Without --ref
and --ci-environment every branch of the repository deploys.

On GitHub and Forgejo, only runs of push, workflow_dispatch, schedule and release deploy. On
GitLab, only protected branches and tags deploy, without merge requests. --any-event and
--unprotected open this; --claim event_name=PATTERN chooses events. Further claims are named by
--claim, as the provider's tokens have them; with --issuer and --claim alone any issuer will
do that the installation believes.`,
		Example: `  sluice app webhook trust add hello --github org/repo --ref refs/heads/main
  sluice app webhook trust add hello --gitlab group/project --ci-environment production
  sluice app webhook trust add hello --issuer https://ci.example.com --claim sub=org/repo`,
	}
	for _, p := range []app.Provider{app.GitHub, app.GitLab, app.Forgejo} {
		f.repositories[p] = cmd.Flags().String(string(p), "", "repository on "+string(p)+", e.g. org/repo")
	}
	cmd.Flags().StringVar(&f.where.Ref, "ref", "", "ref of the run, e.g. refs/heads/main")
	cmd.Flags().StringVar(&f.where.Environment, "ci-environment", "", "environment of the run, as the provider calls it")
	cmd.Flags().StringVar(&f.where.Workflow, "workflow", "", "name of the workflow (not on GitLab)")
	cmd.Flags().BoolVar(&f.where.AnyEvent, "any-event", false, "also runs of pull requests and of all other events (default false)")
	cmd.Flags().BoolVar(&f.where.Unprotected, "unprotected", false, "GitLab: also runs on unprotected branches and tags (default false)")
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "issuer of the tokens; github and gitlab have a public one")
	cmd.Flags().StringVar(&f.audience, "audience", "", "whom tokens are meant for; the webhook's URL unless given")
	cmd.Flags().StringArrayVar(&f.claims, "claim", nil, "one more claim as NAME=PATTERN; may be given again")
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		body, err := f.body()
		if err != nil {
			return err
		}
		added, err := w.AddTrust(ctx, w.project, w.environment, w.args[0], body)
		if err != nil {
			return err
		}
		return a.showTrust(ctx, w, added)
	})
}

// body is what the flags ask for.
func (f *trustFlags) body() (wire.AddTrust, error) {
	provider := app.Other
	for p, repository := range f.repositories {
		if *repository == "" {
			continue
		}
		if provider != app.Other {
			return wire.AddTrust{}, usage("--github, --gitlab and --forgejo exclude each other")
		}
		provider, f.where.Repository = p, *repository
	}
	switch {
	case provider == app.GitLab && f.where.Workflow != "":
		return wire.AddTrust{}, usage("GitLab's tokens name no workflow")
	case provider == app.Other && f.where.AnyEvent:
		return wire.AddTrust{}, usage("--any-event needs --github, --gitlab or --forgejo")
	case provider != app.GitLab && f.where.Unprotected:
		return wire.AddTrust{}, usage("--unprotected needs --gitlab")
	}
	claims := provider.Claims(f.where)
	for _, given := range f.claims {
		name, pattern, ok := strings.Cut(given, "=")
		if !ok || name == "" || pattern == "" {
			return wire.AddTrust{}, usage("--claim is NAME=PATTERN, not %q", given)
		}
		claims[name] = pattern
	}
	return wire.AddTrust{Provider: string(provider), Issuer: f.issuer, Audience: f.audience, Claims: claims}, nil
}

// showTrust shows a trust, and for people what to put into CI.
func (a *application) showTrust(ctx context.Context, w work, t wire.Trust) error {
	shown, err := readApp(ctx, w)
	if err != nil {
		return err
	}
	hook, err := w.Webhook(ctx, w.project, w.environment, w.args[0])
	if err != nil {
		return err
	}
	if t.Claims["ref"] == "" && t.Claims["environment"] == "" && t.Claims["sub"] == "" {
		a.note("Runs of every branch deploy: --ref or --ci-environment says which.")
	}
	a.noteOpen(t)
	return a.show(t, func(s render.Screen) error {
		if err := s.Fields(trustFields(t)...); err != nil {
			return err
		}
		h := snippetHook(shown, hook)
		h.Audience = t.Audience
		ci := snippet.CI(t.Provider)
		if app.Provider(t.Provider) == app.Other {
			ci = snippet.Curl
		}
		return printSnippets(s, h, []snippet.CI{ci})
	})
}

// noteOpen warns about a trust that is open.
func (a *application) noteOpen(t wire.Trust) {
	if t.Open {
		a.note("%s is open: it admits pull requests, unprotected branches or any owner. Add a narrower trust, then remove this one.", t.ID)
	}
}

func trustFields(t wire.Trust) []render.Field {
	fields := []render.Field{{Name: "Trust", Value: t.ID}, {Name: "Provider", Value: t.Provider}, {Name: "Issuer", Value: t.Issuer}, {Name: "Audience", Value: t.Audience}}
	for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
		fields = append(fields, render.Field{Name: "Claim " + name, Value: t.Claims[name]})
	}
	return fields
}

func (a *application) trustList() *cobra.Command {
	return a.command(inEnvironment, &cobra.Command{
		Use: "list APP", Short: "List the pipelines that deploy an app without a secret", SuggestFor: []string{"ls"},
		Example: `  sluice app webhook trust list hello`,
	}, func(ctx context.Context, w work) error {
		return showList(a, "trusts", w.Trusts(ctx, w.project, w.environment, w.args[0]), []render.Column{
			{Name: "ID", Whole: true},
			{Name: "PROVIDER"},
			{Name: "OPEN"},
			{Name: "CLAIMS", Cap: 60},
			{Name: "ISSUER", Rank: 1},
			{Name: "AUDIENCE", Rank: 3},
			{Name: "CREATED BY", Rank: 2},
		}, func(t wire.Trust) []render.Cell {
			a.noteOpen(t)
			return render.Plainly(t.ID, t.Provider, yesNo(t.Open), claimsText(t.Claims), t.Issuer, t.Audience, t.CreatedBy)
		})
	})
}

func claimsText(claims map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		parts = append(parts, name+"="+claims[name])
	}
	return strings.Join(parts, " ")
}

func (a *application) trustRemove() *cobra.Command {
	return a.removal(inEnvironment, asks, &cobra.Command{
		Use: "remove APP ID", Short: "Trust pipelines no more", SuggestFor: []string{"delete", "rm"},
		Example: `  sluice app webhook trust remove hello trust-k3xq7m2pza`,
	}, func(w work) removal {
		return removal{
			question: "Remove " + w.args[1] + " from " + w.args[0] + "? Its pipelines deploy nothing from then on.",
			do: func(ctx context.Context) error {
				return w.RemoveTrust(ctx, w.project, w.environment, w.args[0], w.args[1])
			},
			done: w.args[1] + " is removed.",
		}
	})
}
