package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) keyGroup() *cobra.Command {
	g := a.group("key", "API keys and their usage",
		a.keyCreate(), a.keyList(), a.keyFind(), a.keyShow(), a.keyUpdate(), a.keyDisable(), a.keyEnable(),
		a.keyRevoke(), a.keyRotate(), a.keyUsage(), a.keyReportLeak(),
	)
	g.Long = `API keys and their usage. A KEY is named by its id (key-ab12cd34), its prefix (ab12cd34), or
its name where no other key of the project has it; revoked keys do not count then, unless
there are only such. Of a full key only the prefix is sent.`
	return g
}

// onKey completes a command whose first argument names a key.
func (a *application) onKey(cmd *cobra.Command, run run) *cobra.Command {
	return a.command(inProject, cmd, func(ctx context.Context, w work) error {
		id, err := keyID(ctx, w, a.withoutSecret(w.args[0]))
		if err != nil {
			return err
		}
		w.args = []string{id}
		return run(ctx, w)
	})
}

// withoutSecret returns the ID of the key whose full key an argument contains, or else the
// argument. No address may hold a full key.
func (a *application) withoutSecret(arg string) string {
	prefix, ok := apikey.PrefixIn(arg)
	if !ok {
		return arg
	}
	a.note("An argument contains a full key. Only its prefix is sent, but others on this machine can read arguments: rotate the key.")
	return string(apikey.IDOf(prefix))
}

// keyID is the id of the key that a person names. What looks like a prefix can be a name
// too, so only an id goes without looking at the list.
func keyID(ctx context.Context, w work, named string) (string, error) {
	if _, ok := apikey.ID(named).Prefix(); ok {
		return named, nil
	}
	var usable, revoked []string
	for k, err := range w.Keys(ctx, w.project, client.KeyFilter{Search: named}) {
		switch {
		case err != nil:
			return "", err
		case k.Prefix != named && (k.Name != named || named == ""):
		case k.Status == string(apikey.Revoked) && k.Prefix != named:
			revoked = append(revoked, k.ID)
		default:
			usable = append(usable, k.ID)
		}
	}
	if len(usable) == 0 {
		usable = revoked
	}
	switch len(usable) {
	case 0:
		return "", failure{"not_found", exitNotFound, fmt.Sprintf("No key of %s has the id, prefix or name %q.", w.project, named)}
	case 1:
		return usable[0], nil
	}
	return "", usage("%q names %d keys: %s; pass the id", named, len(usable), strings.Join(usable, ", "))
}

func (a *application) keyList() *cobra.Command {
	var f client.KeyFilter
	var everywhere bool
	cmd := &cobra.Command{
		Use: "list", Short: "List API keys", SuggestFor: []string{"ls"},
		Long: `List the API keys of an environment, or with --all-environments those of the whole
project; with --status, --plan, --app and --search only some. A key without apps of its own
opens every app, and so is among those of --app. To find the key that a full key belongs to
there is sluice key find.`,
		Example: `  sluice key list --project shop --environment prod
  sluice key list --status active --plan plan-starter --app hello
  sluice key list --jq '.items[] | select(.last_seen == null) | [.id, .name] | @tsv'`,
	}
	cmd.Flags().BoolVar(&everywhere, "all-environments", false, "of every environment of the project")
	cmd.Flags().StringVar(&f.Status, "status", "", "only those that are "+oneOf(wire.KeyStatuses()))
	cmd.Flags().StringVar(&f.Plan, "plan", "", "only those of a usage plan, e.g. plan-starter")
	cmd.Flags().StringVar(&f.App, "app", "", "only those that open an app")
	cmd.Flags().StringVar(&f.Search, "search", "", "beginning of a word of the name, or of the ID")
	cmd.Flags().StringVar(&f.Sort, "sort", "", "by "+oneOf(wire.KeySorts()))
	a.fixed(cmd, "status", wire.KeyStatuses()...)
	a.fixed(cmd, "sort", wire.KeySorts()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Status != "" && !slices.Contains(wire.KeyStatuses(), f.Status) {
			return usage("--status is %s, not %q", oneOf(wire.KeyStatuses()), f.Status)
		}
		if f.Sort != "" && !slices.Contains(wire.KeySorts(), f.Sort) {
			return usage("--sort is %s, not %q", oneOf(wire.KeySorts()), f.Sort)
		}
		in := inEnvironment
		if everywhere {
			in = inProject
		}
		return a.run(cmd.Context(), in, args, func(ctx context.Context, w work) error {
			f.Environment, f.Search = w.environment, a.withoutSecret(f.Search)
			return a.listKeys(ctx, w, f)
		})
	}
	return cmd
}

func (a *application) listKeys(ctx context.Context, w work, f client.KeyFilter) error {
	environment := 5 // the rank of a column that says the same in every row
	if f.Environment == "" {
		environment = 0
	}
	return showList(a, "keys", w.Keys(ctx, w.project, f), []render.Column{
		{Name: "KEY", Whole: true},
		{Name: "NAME"},
		{Name: "STATUS"},
		{Name: "PLAN"},
		{Name: "QUOTA", Rank: 3},
		{Name: "APPS", Rank: 4},
		{Name: "LAST SEEN", Rank: 2},
		{Name: "EXPIRES", Rank: 1},
		{Name: "ENVIRONMENT", Rank: environment},
	}, func(k wire.Key) []render.Cell {
		quota, tone := quotaShare(k)
		cells := render.Plainly(k.ID, k.Name, k.Status, k.Plan, quota, scopeText(k.Apps, k.Scope), dayOf(k.LastSeen), expiryText(k.ExpiresAt), k.Environment)
		cells[2].Tone, cells[4].Tone, cells[7].Tone = statusTone(k.Status), tone, a.expiryTone(k)
		return cells
	})
}

func (a *application) keyFind() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "find", Short: "Find the API key that a full key belongs to",
		Long: `Find the API key that a full key belongs to, e.g. one that was found in a log. The full key
is read from standard input, or asked for; it is in no argument and in no address. The answer
says whether anybody gets through with it: it can be the key's current secret, the one before
the last rotation, or one that is good no more.`,
		Example: `  sluice key find --project shop < leaked.txt`,
	}, func(ctx context.Context, w work) error {
		full, err := a.fullKey(ctx)
		if err != nil {
			return err
		}
		found, err := w.FindKey(ctx, w.project, full)
		if err != nil {
			return err
		}
		return a.show(found, func(s render.Screen) error {
			if err := s.Fields(a.keyFields(found.Key)...); err != nil {
				return err
			}
			return s.Line("%s", secretText(found))
		})
	})
}

// fullKey asks for a full key, or reads it from standard input where there is nobody to ask.
func (a *application) fullKey(ctx context.Context) (client.FullKey, error) {
	full, err := a.term.AskPassword(ctx, "Full key: ")
	if errors.Is(err, terminal.ErrNobody) {
		full, err = a.term.ReadSecret()
	}
	return client.FullKey(strings.TrimSpace(full)), err
}

func (a *application) keyReportLeak() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report-leak [-]", ValidArgs: []string{"-"}, Short: "Report a leaked API key or service token", SuggestFor: []string{"leak", "leaked", "report"},
		Long: `Report a full API key or service token that the public can read somewhere, of any project. The
command reads it from standard input or asks for it. An argument would show it to others on
this machine.

A valid key stops working: it is disabled or revoked, as its project has chosen with
"sluice project update". A previous secret in its grace period ends. A service token is
revoked.
The project sees when it was reported, by which user, and where it was found.

The response does not show whether the key exists. Members of its project see the result with
"sluice key find", and for service tokens with "sluice status".`,
		Example: `  sluice key report-leak --url https://git.example.com/shop/hello < leaked.txt
  pbpaste | sluice key report-leak -`,
	}
	where := cmd.Flags().String("url", "", "where it was found")
	return a.command(onServer, cmd, func(ctx context.Context, w work) error {
		if len(w.args) > 0 && w.args[0] != "-" { // which is not repeated: it may be the key
			return usage("the full key is read from standard input, never from an argument: pass - or nothing")
		}
		full, err := a.fullKey(ctx)
		if err != nil {
			return err
		}
		received, err := w.ReportLeak(ctx, full, *where)
		if err != nil {
			return err
		}
		return a.show(received, func(s render.Screen) error {
			return s.Line("Report received. If this is a key or a service token, it no longer works. Its project can see who reported it.")
		})
	})
}

// secretText says what a full key is good for.
func secretText(f wire.FoundKey) string {
	switch {
	case f.Secret == wire.SecretUnknown:
		return "That is none of the key's secrets any more: nobody gets through with it."
	case f.Key.Status != string(apikey.Active):
		return "That is a secret of the key, but the key is " + f.Key.Status + ": nobody gets through with it."
	case f.Secret == wire.SecretPrevious:
		return "That is the secret before the last rotation, good until " + stampOf(f.Key.PreviousSecretExpiresAt) + "."
	}
	return "That is the key's current secret: whoever has it gets through."
}

func (a *application) keyShow() *cobra.Command {
	return a.onKey(&cobra.Command{
		Use: "show KEY", Short: "Show an API key, without its secret", SuggestFor: []string{"get", "describe"},
		Example: `  sluice key show key-ab12cd34 --project shop`,
	}, then(a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.Key(ctx, w.project, w.args[0]) }))
}

func (a *application) showKey(k wire.Key) error { return a.showFields(k, a.keyFields(k)) }

func (a *application) keyFields(k wire.Key) []render.Field {
	expires := render.Field{Name: "Expires", Value: expiryText(k.ExpiresAt), Tone: a.expiryTone(k)}
	if k.ExpiresAt == nil {
		expires.Value = "never"
	}
	fields := []render.Field{
		{Name: "Key", Value: k.ID},
		{Name: "Name", Value: k.Name},
		{Name: "Status", Value: k.Status, Tone: statusTone(k.Status)},
		{Name: "Plan", Value: k.Plan},
		{Name: "Environment", Value: k.Project + "/" + k.Environment},
		{Name: "Apps", Value: scopeText(k.Apps, k.Scope)},
		expires,
		{Name: "Last seen", Value: dayOf(k.LastSeen)},
		{Name: "Created", Value: stamp(k.CreatedAt) + " by " + k.CreatedBy},
	}
	if k.RevokedAt != nil {
		revoked := stamp(*k.RevokedAt)
		if k.RevokedBy != nil {
			revoked += " by " + *k.RevokedBy
		}
		fields = append(fields, render.Field{Name: "Revoked", Value: revoked})
	}
	if k.Leak != nil {
		fields = append(fields, leakField(*k.Leak))
	}
	if k.PreviousSecretExpiresAt != nil {
		fields = append(fields, render.Field{Name: "Previous secret until", Value: stampOf(k.PreviousSecretExpiresAt), Tone: render.Watch})
	}
	return fields
}

// leakField shows that a secret of a key has leaked.
func leakField(l wire.KeyLeak) render.Field {
	f := render.Field{Name: "Leaked", Value: stamp(l.At) + ", reported by " + l.By, Tone: render.Bad}
	if l.FoundAt != "" {
		f.Value += ", found at " + l.FoundAt
	}
	if l.Secret == wire.LeakedEnded {
		f.Value, f.Tone = f.Value+"; that secret has ended", render.Watch
	}
	return f
}

// scopeText shows the apps that a key covers.
func scopeText(apps []string, scope string) string {
	switch {
	case scope == string(apikey.NoApps):
		return "none"
	case len(apps) == 0:
		return "all"
	}
	return strings.Join(apps, ", ")
}

// dayOf shows the last day on which a key was used.
func dayOf(seen *string) string {
	if seen == nil {
		return "never"
	}
	return *seen
}

func statusTone(status string) render.Tone {
	switch status {
	case "active":
		return render.Good
	case "disabled":
		return render.Watch
	}
	return render.Bad
}

// expiryWarning is the time before a key's expiry in which it stands out.
const expiryWarning = 14 * 24 * time.Hour

func (a *application) expiryTone(k wire.Key) render.Tone {
	switch {
	case k.ExpiresAt == nil:
		return render.Plain
	case !a.env.Now().Before(*k.ExpiresAt):
		return render.Bad
	case a.env.Now().Add(expiryWarning).After(*k.ExpiresAt):
		return render.Watch
	}
	return render.Plain
}

func (a *application) keyCreate() *cobra.Command {
	var plan, name, expires string
	var apps []string
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create an API key and show it, this once", SuggestFor: []string{"add", "new"},
		Long: `Create an API key. The full key is shown once and kept nowhere: a lost key can only be
replaced. With --quiet it is all that is printed.

Without --app the key opens every app of its environment. --expires takes a day, through
whose end in UTC the key stays valid, or an RFC 3339 timestamp.`,
		Example: `  sluice key create "Checkout team" --plan plan-starter --app hello --expires 2027-01-31
  KEY=$(sluice key create --plan plan-starter --quiet)`,
	}
	cmd.Flags().StringVar(&plan, "plan", "", "usage plan of the key, e.g. plan-starter (required)")
	cmd.Flags().StringVar(&name, "name", "", "display name, which the apps get to see; the same as NAME")
	cmd.Flags().StringArrayVar(&apps, "app", nil, "app that the key opens; can be given more than once")
	cmd.Flags().StringVar(&expires, "expires", "", "last day (2027-01-31) or RFC 3339 timestamp")
	return a.command(inEnvironment, cmd, a.issuing(cmd, "known to", func(ctx context.Context, w work) (wire.Key, client.FullKey, error) {
		if plan == "" {
			return wire.Key{}, "", usage("a key needs --plan")
		}
		if len(w.args) > 0 {
			if cmd.Flags().Changed("name") {
				return wire.Key{}, "", usage("NAME and --name are the same: pass one of them")
			}
			name = w.args[0]
		}
		ends, err := expiry(cmd, expires)
		if err != nil {
			return wire.Key{}, "", err
		}
		return w.CreateKey(ctx, w.project, w.environment, wire.CreateKey{Plan: &plan, Name: name, Apps: apps, ExpiresAt: ends})
	}))
}

// expiry takes a day as the instant at which it ends, and leaves anything else to the
// server; nil is no expiry. An empty one is a variable that a script forgot to set: it
// must not make a key that never expires.
func expiry(cmd *cobra.Command, text string) (*string, error) {
	if !cmd.Flags().Changed("expires") {
		return nil, nil //nolint:nilnil // no expiry is a value of the API's
	}
	if text == "" {
		return nil, usage("--expires is empty")
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		text = day.AddDate(0, 0, 1).Format(time.RFC3339)
	}
	return &text, nil
}

// expiryText shows an expiry as --expires takes it: the end of a day as that day.
func expiryText(t *time.Time) string {
	if t == nil || !t.Equal(t.UTC().Truncate(24*time.Hour)) {
		return stampOf(t)
	}
	return t.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
}

func (a *application) keyRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Give an API key a new secret, shown this once",
		Long: `Give an API key a new secret. Id, prefix, plan and usage go on; the old secret stays
valid for --grace, 0s to 720h. A key has two secrets at most: a second rotation within the
grace ends the first secret at once, and on a terminal it asks before that. A secret that
has leaked gets no grace.`,
		Example: `  sluice key rotate key-ab12cd34 --grace 48h`,
	}
	grace := cmd.Flags().Duration("grace", 24*time.Hour, "how long the old secret stays valid")
	confirm := a.confirmation(cmd, asks)
	return a.onKey(cmd, a.issuing(cmd, "followed by", func(ctx context.Context, w work) (wire.Key, client.FullKey, error) {
		return a.rotate(ctx, w, confirm, *grace)
	}))
}

// rotate asks before it ends a secret that was to stay valid for longer.
func (a *application) rotate(ctx context.Context, w work, confirm *confirmation, grace time.Duration) (wire.Key, client.FullKey, error) {
	before, err := w.Key(ctx, w.project, w.args[0])
	if err != nil {
		return wire.Key{}, "", err
	}
	within := before.PreviousSecretExpiresAt != nil && a.env.Now().Before(*before.PreviousSecretExpiresAt)
	if within {
		question := before.ID + " was rotated already, and its first secret is valid until " + stampOf(before.PreviousSecretExpiresAt) +
			". Rotate it again? The first secret stops working at once."
		if err := confirm.ask(ctx, question, w.args[0]); err != nil {
			return wire.Key{}, "", err
		}
	}
	k, full, err := w.RotateKey(ctx, w.project, w.args[0], grace)
	if err == nil && within {
		a.note("The secret before the last rotation stopped working.")
	}
	return k, full, err
}

// issuing is a command that shows a full key, with a warning beside it.
func (a *application) issuing(cmd *cobra.Command, does string, issue func(ctx context.Context, w work) (wire.Key, client.FullKey, error)) run {
	quiet, e := cmd.Flags().BoolP("quiet", "q", false, "print the key alone"), a.effect(cmd)
	return func(ctx context.Context, w work) error {
		k, full, err := issue(ctx, e.waiting(w))
		if err != nil {
			return err
		}
		if *quiet {
			err = a.screen().Line("%s", string(full))
		} else {
			a.note("Keep this key now: it is shown this once and cannot be recovered.")
			err = a.showFields(wire.IssuedKey{Key: k, FullKey: string(full)},
				append([]render.Field{{Name: "API key", Value: string(full)}}, a.keyFields(k)...))
		}
		if err != nil {
			return err
		}
		return a.tell(does, k.Force())
	}
}

func (a *application) keyUpdate() *cobra.Command {
	var name, plan, expires string
	var apps []string
	var allApps, never bool
	cmd := &cobra.Command{
		Use: "update KEY", Short: "Change an API key's name, plan, apps or expiry", SuggestFor: []string{"edit", "set"},
		Example: `  sluice key update key-ab12cd34 --plan plan-gold --expires 2027-06-30
  sluice key update key-ab12cd34 --all-apps --never-expires`,
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "display name; empty takes it away")
	f.StringVar(&plan, "plan", "", "usage plan")
	f.StringArrayVar(&apps, "app", nil, "app that the key opens, in place of all before; can be given more than once")
	f.BoolVar(&allApps, "all-apps", false, "open every app of the environment")
	f.StringVar(&expires, "expires", "", "last day (2027-01-31) or RFC 3339 timestamp")
	f.BoolVar(&never, "never-expires", false, "take the expiry away")
	cmd.MarkFlagsMutuallyExclusive("app", "all-apps")
	cmd.MarkFlagsMutuallyExclusive("expires", "never-expires")
	return a.onKey(cmd, effective(a.effect(cmd), "followed by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) {
		ends, err := expiry(cmd, expires)
		if err != nil {
			return wire.Key{}, err
		}
		if allApps {
			apps = []string{}
		}
		u := wire.UpdateKey{
			Name: wire.If(f.Changed("name"), &name), Plan: wire.If(f.Changed("plan"), &plan),
			Apps: wire.If(allApps || f.Changed("app"), &apps), ExpiresAt: wire.If(never || ends != nil, ends),
		}
		if u == (wire.UpdateKey{}) {
			return wire.Key{}, usage("nothing to change: pass --name, --plan, --app, --all-apps, --expires or --never-expires")
		}
		return w.UpdateKey(ctx, w.project, w.args[0], u)
	}))
}

func (a *application) keyDisable() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable KEY", Short: "Switch an API key off, for now",
		Long: `Switch an API key off, and wait until every checker refuses it. "sluice key enable"
switches it on again.`,
		Example: `  sluice key disable key-ab12cd34`,
	}
	return a.onKey(cmd, effective(a.effect(cmd), "refused by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.DisableKey(ctx, w.project, w.args[0]) }))
}

func (a *application) keyEnable() *cobra.Command {
	cmd := &cobra.Command{
		Use: "enable KEY", Short: "Switch a disabled API key on",
		Example: `  sluice key enable key-ab12cd34`,
	}
	return a.onKey(cmd, effective(a.effect(cmd), "known to", a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.EnableKey(ctx, w.project, w.args[0]) }))
}

func (a *application) keyRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "End an API key for good", SuggestFor: []string{"delete", "remove", "rm"},
		Long: `End an API key for good, and wait until every checker refuses it. A checker that does not
say so is named, with the instant by which it denies everything: never later than 90 seconds.
It cannot be taken back.`,
		Example: `  sluice key revoke key-ab12cd34 --yes`,
	}
	confirm := a.confirmation(cmd, insists)
	return a.onKey(cmd, effective(a.effect(cmd), "refused by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) {
		if err := confirm.ask(ctx, "Revoke "+w.args[0]+" for good?", w.args[0]); err != nil {
			return wire.Key{}, err
		}
		return w.RevokeKey(ctx, w.project, w.args[0])
	}))
}
