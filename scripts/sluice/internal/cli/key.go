package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	g := a.group("key", "Manage API keys and show their usage",
		a.keyCreate(), a.keyList(), a.keyFind(), a.keyShow(), a.keyUpdate(), a.keyDisable(), a.keyEnable(),
		a.keyRevoke(), a.keyBulk(), a.keyRotate(), a.keyUsage(), a.keyReportLeak(),
	)
	g.Long = `Manage API keys and show their usage.

KEY is an ID (key-ab12cd34), a prefix (ab12cd34) or a name that is unique in the project. A
name matches revoked keys only if all keys of that name are revoked. If KEY contains a full
key, only its prefix is sent.`
	return g
}

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

// withoutSecret replaces an argument that contains a full key with the key's ID, because a URL must
// not contain a full key.
func (a *application) withoutSecret(arg string) string {
	prefix, ok := apikey.PrefixIn(arg)
	if !ok {
		return arg
	}
	a.note("An argument contains a full key. Only its prefix is sent, but others on this machine can read arguments: rotate the key.")
	return string(apikey.IDOf(prefix))
}

// keyID returns the ID of a key with the given ID, prefix or name.
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
		return "", failure{"not_found", exitNotFound, fmt.Sprintf("Project %s has no key with the ID, prefix or name %q. Run: sluice key list --all-environments", w.project, named)}
	case 1:
		return usable[0], nil
	}
	return "", usage("%q matches %d keys (%s): pass an ID", named, len(usable), strings.Join(usable, ", "))
}

func (a *application) keyList() *cobra.Command {
	var f client.KeyFilter
	var unused string
	var everywhere bool
	cmd := &cobra.Command{
		Use: "list", Short: "List API keys", SuggestFor: []string{"ls"},
		Long: `List the API keys of an environment, or of the whole project with --all-environments.
Other flags narrow the list. --app also lists the keys that are valid for every app.
--unused-for lists the keys that were created earlier and had no requests since then, sorted by
last use. -o ids prints one ID per line.

To find a key by its full key, use "sluice key find".`,
		Example: `  sluice key list --status active --plan plan-starter --app hello
  sluice key list --tag batch --unused-for 90d -o ids
  sluice key list --jq '.items[] | select(.last_seen == null) | [.id, .name] | @tsv'`,
	}
	a.listsIDs(cmd)
	cmd.Flags().BoolVar(&everywhere, "all-environments", false, "list the keys of every environment")
	a.keyFilterFlags(cmd, &f, &unused, "plan")
	cmd.Flags().StringVar(&f.Sort, "sort", "", "sort order: "+oneOf(wire.KeySorts()))
	a.fixed(cmd, "sort", wire.KeySorts()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Sort != "" && !slices.Contains(wire.KeySorts(), f.Sort) {
			return usage("--sort must be %s, not %q", oneOf(wire.KeySorts()), f.Sort)
		}
		if err := setKeyFilter(&f, unused); err != nil {
			return err
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

// keyFilterFlags adds the flags of a filter. plan is the name of the flag for the plan.
func (a *application) keyFilterFlags(cmd *cobra.Command, f *client.KeyFilter, unused *string, plan string) {
	cmd.Flags().StringVar(&f.Status, "status", "", "key status: "+oneOf(wire.KeyStatuses()))
	cmd.Flags().StringVar(&f.Plan, plan, "", "current usage plan ID of the keys, e.g. plan-starter")
	cmd.Flags().StringVar(&f.App, "app", "", "app in the keys' scope")
	cmd.Flags().StringVar(&f.Tag, "tag", "", "tag of the keys")
	cmd.Flags().StringVar(unused, "unused-for", "", "time without requests, 24h to 92d")
	cmd.Flags().StringVar(&f.Search, "search", "", "beginning of the ID or of a word in the name")
	a.fixed(cmd, "status", wire.KeyStatuses()...)
}

// setKeyFilter checks a filter and sets the duration from --unused-for, e.g. 90d.
func setKeyFilter(f *client.KeyFilter, unused string) error {
	if f.Status != "" && !slices.Contains(wire.KeyStatuses(), f.Status) {
		return usage("--status must be %s, not %q", oneOf(wire.KeyStatuses()), f.Status)
	}
	f.Unused = unused
	if days, err := strconv.Atoi(strings.TrimSuffix(unused, "d")); err == nil && strings.HasSuffix(unused, "d") && days > 0 {
		f.Unused = fmt.Sprintf("%dh", 24*days)
	} else if _, err := time.ParseDuration(unused); err != nil && unused != "" {
		return usage("--unused-for must be a duration such as 36h or 90d, not %q", unused)
	}
	return nil
}

func (a *application) listKeys(ctx context.Context, w work, f client.KeyFilter) error {
	if a.format() == render.IDs {
		var ids []string
		for k, err := range w.Keys(ctx, w.project, f) {
			if err != nil {
				return err
			}
			ids = append(ids, k.ID)
		}
		return a.showIDs(ids)
	}
	environment := 6 // the column is hidden first, because all its values are the same
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
		{Name: "TAGS", Rank: 5},
		{Name: "ENVIRONMENT", Rank: environment},
	}, func(k wire.Key) []render.Cell {
		quota, tone := quotaShare(k)
		cells := render.Plainly(k.ID, k.Name, k.Status, k.Plan, quota, scopeText(k.Apps, k.Scope), dayOf(k.LastSeen), expiryText(k.ExpiresAt), strings.Join(k.Tags, " "), k.Environment)
		cells[2].Tone, cells[4].Tone, cells[7].Tone = statusTone(k.Status), tone, a.expiryTone(k)
		return cells
	})
}

func (a *application) keyFind() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "find", Short: "Find an API key by its full key",
		Long: `Find the API key that a full key belongs to, such as one from a log. The command prompts for
the full key or reads it from standard input; it never appears in an argument or a URL.

The output shows whether the gate accepts the full key. Its secret is the current one, the
previous one, or no longer valid.`,
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
		Long: `Report an API key or a service token, of any project, that is publicly readable. The command
prompts for the full key or reads it from standard input. It does not accept the key as an
argument, because other users of this machine can see arguments.

A valid key stops working: it is disabled or revoked, depending on the leak policy of its
project ("sluice project update"). If its previous secret leaked, only that secret ends.
A service token is revoked. The project's members see the time of the report, the user who
reported it, and the location.

The response does not show whether the key exists. Members of its project see the result with
"sluice key find", and for service tokens with "sluice status".`,
		Example: `  sluice key report-leak --url https://git.example.com/shop/hello < leaked.txt
  pbpaste | sluice key report-leak -`,
	}
	where := cmd.Flags().String("url", "", "URL where it was found")
	return a.command(onServer, cmd, func(ctx context.Context, w work) error {
		if len(w.args) > 0 && w.args[0] != "-" { // the error must not contain the argument, which can be the key
			return usage("the full key is read from standard input, not from an argument: pass - or no argument")
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
			return s.Line("Report received. If the key or service token was valid, it no longer works. Its project can see who reported it.")
		})
	})
}

func secretText(f wire.FoundKey) string {
	switch {
	case f.Secret == wire.SecretUnknown:
		return "This secret is no longer valid. The gate rejects it."
	case f.Key.Status != string(apikey.Active):
		return "This secret is valid, but the key is " + f.Key.Status + ". The gate rejects it."
	case f.Secret == wire.SecretPrevious:
		return "This is the previous secret. The gate accepts it until " + stampOf(f.Key.PreviousSecretExpiresAt) + "."
	}
	return "This is the current secret. The gate accepts it."
}

func (a *application) keyShow() *cobra.Command {
	return a.onKey(&cobra.Command{
		Use: "show KEY", Short: "Show an API key, without its secret", SuggestFor: []string{"get", "describe"},
		Example: `  sluice key show key-ab12cd34 --project shop`,
	}, showResult(a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.Key(ctx, w.project, w.args[0]) }))
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
		{Name: "Tags", Value: strings.Join(k.Tags, " ")},
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

func leakField(l wire.KeyLeak) render.Field {
	f := render.Field{Name: "Leaked", Value: stamp(l.At) + ", reported by " + l.By, Tone: render.Bad}
	if l.FoundAt != "" {
		f.Value += ", found at " + l.FoundAt
	}
	if l.Secret == wire.LeakedEnded {
		f.Value, f.Tone = f.Value+"; the leaked secret is no longer valid", render.Watch
	}
	return f
}

func scopeText(apps []string, scope string) string {
	switch {
	case scope == string(apikey.NoApps):
		return "none"
	case len(apps) == 0:
		return "all"
	}
	return strings.Join(apps, ", ")
}

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
	var apps, tags []string
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create an API key", SuggestFor: []string{"add", "new"},
		Long: `Create an API key and wait until every checker accepts it. The full key is shown only once and
is not stored; a lost key must be replaced. --quiet prints only the full key.

Without --app, the key is valid for every app of its environment. --expires is the last valid
day (UTC) or an RFC 3339 timestamp.`,
		Example: `  sluice key create "Checkout team" --plan plan-starter --app hello --expires 2027-01-31
  KEY=$(sluice key create --plan plan-starter --quiet)`,
	}
	cmd.Flags().StringVar(&plan, "plan", "", "usage plan ID, e.g. plan-starter (required)")
	cmd.Flags().StringVar(&name, "name", "", "display name, visible to apps; same as NAME")
	cmd.Flags().StringArrayVar(&apps, "app", nil, "app in the key's scope; repeatable")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "label for lists and bulk changes; repeatable")
	cmd.Flags().StringVar(&expires, "expires", "", "last valid day (2027-01-31) or RFC 3339 timestamp")
	return a.command(inEnvironment, cmd, a.issueKey(cmd, "accepted by", func(ctx context.Context, w work) (wire.Key, client.FullKey, error) {
		if plan == "" {
			return wire.Key{}, "", usage("--plan is required")
		}
		if len(w.args) > 0 {
			if cmd.Flags().Changed("name") {
				return wire.Key{}, "", usage("NAME and --name set the same value: pass only one")
			}
			name = w.args[0]
		}
		ends, err := expiry(cmd, expires)
		if err != nil {
			return wire.Key{}, "", err
		}
		return w.CreateKey(ctx, w.project, w.environment, wire.CreateKey{Plan: &plan, Name: name, Apps: apps, Tags: tags, ExpiresAt: ends})
	}))
}

// expiry converts the last valid day to the end of that day. The server parses other values; nil is
// no expiry. An empty value is an error: an unset variable in a script must not create a key without
// an expiry.
func expiry(cmd *cobra.Command, text string) (*string, error) {
	if !cmd.Flags().Changed("expires") {
		return nil, nil //nolint:nilnil // nil means no expiry
	}
	if text == "" {
		return nil, usage("--expires is empty")
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		text = day.AddDate(0, 0, 1).Format(time.RFC3339)
	}
	return &text, nil
}

// expiryText formats an expiry as a value of --expires.
func expiryText(t *time.Time) string {
	if t == nil || !t.Equal(t.UTC().Truncate(24*time.Hour)) {
		return stampOf(t)
	}
	return t.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
}

func (a *application) keyRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Replace an API key's secret",
		Long: `Replace an API key's secret. ID, prefix, plan and usage do not change. The new full key is
shown only once. The previous secret stays valid for --grace, 0s to 720h.

At most two secrets are valid at a time. Another rotation within the grace period ends the
previous secret immediately; on a terminal, it asks for confirmation. A leaked secret gets no
grace period.`,
		Example: `  sluice key rotate key-ab12cd34 --grace 48h`,
	}
	grace := cmd.Flags().Duration("grace", 24*time.Hour, "grace period of the previous secret, 0s to 720h")
	confirm := a.confirmation(cmd, promptOnly)
	return a.onKey(cmd, a.issueKey(cmd, "applied by", func(ctx context.Context, w work) (wire.Key, client.FullKey, error) {
		return a.rotate(ctx, w, confirm, *grace)
	}))
}

// rotate asks for confirmation before it ends a secret in its grace period.
func (a *application) rotate(ctx context.Context, w work, confirm *confirmation, grace time.Duration) (wire.Key, client.FullKey, error) {
	before, err := w.Key(ctx, w.project, w.args[0])
	if err != nil {
		return wire.Key{}, "", err
	}
	within := before.PreviousSecretExpiresAt != nil && a.env.Now().Before(*before.PreviousSecretExpiresAt)
	if within {
		question := before.ID + " was rotated before, and its previous secret is valid until " + stampOf(before.PreviousSecretExpiresAt) +
			". Rotate it again? The previous secret stops working immediately."
		if err := confirm.ask(ctx, question, w.args[0]); err != nil {
			return wire.Key{}, "", err
		}
	}
	k, full, err := w.RotateKey(ctx, w.project, w.args[0], grace)
	if err == nil && within {
		a.note("The oldest secret no longer works.")
	}
	return k, full, err
}

func (a *application) issueKey(cmd *cobra.Command, verb string, issue func(ctx context.Context, w work) (wire.Key, client.FullKey, error)) run {
	quiet, e := cmd.Flags().BoolP("quiet", "q", false, "print only the full key"), a.propagationFlags(cmd)
	return func(ctx context.Context, w work) error {
		k, full, err := issue(ctx, e.withWait(w))
		if err != nil {
			return err
		}
		if *quiet {
			err = a.screen().Line("%s", string(full))
		} else {
			a.note("Copy this key now. It is shown only once and cannot be recovered.")
			err = a.showFields(wire.IssuedKey{Key: k, FullKey: string(full)},
				append([]render.Field{{Name: "API key", Value: string(full)}}, a.keyFields(k)...))
		}
		if err != nil {
			return err
		}
		return a.printPropagation(verb, k.Force())
	}
}

func (a *application) keyUpdate() *cobra.Command {
	var name, plan, expires string
	var apps, tags []string
	var allApps, noTags, never bool
	cmd := &cobra.Command{
		Use: "update KEY", Short: "Change the fields of an API key", SuggestFor: []string{"edit", "set"},
		Example: `  sluice key update key-ab12cd34 --plan plan-gold --expires 2027-06-30
  sluice key update key-ab12cd34 --all-apps --never-expires`,
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "display name (empty to remove it)")
	f.StringVar(&plan, "plan", "", "usage plan ID, e.g. plan-starter")
	f.StringArrayVar(&apps, "app", nil, "app in the key's scope, which is replaced; repeatable")
	f.BoolVar(&allApps, "all-apps", false, "make the key valid for every app of the environment")
	f.StringArrayVar(&tags, "tag", nil, "tag of the key, whose tags are replaced; repeatable")
	f.BoolVar(&noTags, "no-tags", false, "remove all tags")
	f.StringVar(&expires, "expires", "", "last valid day (2027-01-31) or RFC 3339 timestamp")
	f.BoolVar(&never, "never-expires", false, "remove the expiry")
	cmd.MarkFlagsMutuallyExclusive("app", "all-apps")
	cmd.MarkFlagsMutuallyExclusive("tag", "no-tags")
	cmd.MarkFlagsMutuallyExclusive("expires", "never-expires")
	return a.onKey(cmd, waitForPropagation(a.propagationFlags(cmd), "applied by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) {
		ends, err := expiry(cmd, expires)
		if err != nil {
			return wire.Key{}, err
		}
		if allApps {
			apps = []string{}
		}
		if noTags {
			tags = []string{}
		}
		u := wire.UpdateKey{
			Name: wire.If(f.Changed("name"), &name), Plan: wire.If(f.Changed("plan"), &plan),
			Apps: wire.If(allApps || f.Changed("app"), &apps), Tags: wire.If(noTags || f.Changed("tag"), &tags), ExpiresAt: wire.If(never || ends != nil, ends),
		}
		if u == (wire.UpdateKey{}) {
			return wire.Key{}, usage("nothing to change: pass --name, --plan, --app, --all-apps, --tag, --no-tags, --expires or --never-expires")
		}
		return w.UpdateKey(ctx, w.project, w.args[0], u)
	}))
}

func (a *application) keyDisable() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable KEY", Short: "Disable an API key",
		Long: `Disable an API key and wait until every checker rejects it. To enable it again, use
"sluice key enable".`,
		Example: `  sluice key disable key-ab12cd34`,
	}
	return a.onKey(cmd, waitForPropagation(a.propagationFlags(cmd), "rejected by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.DisableKey(ctx, w.project, w.args[0]) }))
}

func (a *application) keyEnable() *cobra.Command {
	cmd := &cobra.Command{
		Use: "enable KEY", Short: "Enable a disabled API key",
		Example: `  sluice key enable key-ab12cd34`,
	}
	return a.onKey(cmd, waitForPropagation(a.propagationFlags(cmd), "accepted by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) { return w.EnableKey(ctx, w.project, w.args[0]) }))
}

func (a *application) keyRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke KEY", Short: "Revoke an API key permanently", SuggestFor: []string{"delete", "remove", "rm"},
		Long: `Revoke an API key permanently and wait until every checker rejects it. If a checker does not
confirm this, the command names it and the time from which it denies all requests: at most 90
seconds after the change. A revocation cannot be undone.`,
		Example: `  sluice key revoke key-ab12cd34 --yes`,
	}
	confirm := a.confirmation(cmd, requireYes)
	return a.onKey(cmd, waitForPropagation(a.propagationFlags(cmd), "rejected by", a.showKey, func(ctx context.Context, w work) (wire.Key, error) {
		if err := confirm.ask(ctx, "Revoke "+w.args[0]+" permanently?", w.args[0]); err != nil {
			return wire.Key{}, err
		}
		return w.RevokeKey(ctx, w.project, w.args[0])
	}))
}
