package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

type auditFlags struct {
	since, until            string
	actor, action, resource string
	installation            bool
	limit                   int
}

func (a *application) audit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit", Short: "Show the audit log, newest first", SuggestFor: []string{"events", "changes", "log"},
		Long: `Show the changes in a project: time, user, client address, and the values before and after. The
command needs the role owner. Records are stored for a year and contain no secrets.

With --installation, the command shows the records that belong to no project: users, sign-ins,
and the creation and deletion of projects. Only admins can do this.`,
		Example: `  sluice audit --since 7d --actor ada
  sluice audit --action key.revoke --output json
  sluice audit --resource projects/shop/environments/prod/apps/hello
  sluice audit --installation --since 2026-03-01 --until 2026-03-14`,
	}
	flags := cmd.Flags()
	f.addTo(flags)
	flags.StringVar(&f.action, "action", "", "action, e.g. key.revoke")
	a.fixed(cmd, "action", words(audit.Recorded())...)
	flags.StringVar(&f.resource, "resource", "", "resource, including all resources below it")
	flags.BoolVar(&f.installation, "installation", false, "show records that belong to no project (admins only)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := f.query(a.env.Now())
		if err != nil {
			return err
		}
		if f.installation {
			return a.run(cmd.Context(), onServer, args, func(ctx context.Context, w work) error {
				return a.showAudit(f.limit, w.InstallationAudit(ctx, q))
			})
		}
		return a.run(cmd.Context(), inProject, args, func(ctx context.Context, w work) error {
			return a.showAudit(f.limit, w.Audit(ctx, w.project, q))
		})
	}
	return cmd
}

func (a *application) activity() *cobra.Command {
	var f auditFlags
	kind := ""
	cmd := &cobra.Command{
		Use: "activity", Short: "Show an environment's activity, newest first", SuggestFor: []string{"feed", "history"},
		Long: `Show the activity in an environment: changes to its apps, keys and plans, and deployments and
builds with their results. Every member of the project can see it; owners see more with
"sluice audit".`,
		Example: `  sluice activity --since 7d
  sluice activity --kind deployments --actor webhook`,
	}
	flags := cmd.Flags()
	flags.StringVar(&kind, "kind", "", "kind of activity: "+oneOf(audit.Kinds()))
	a.fixed(cmd, "kind", words(audit.Kinds())...)
	f.addTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := f.query(a.env.Now())
		if err != nil {
			return err
		}
		if kind != "" && !slices.Contains(audit.Kinds(), audit.Kind(kind)) {
			return usage("--kind must be %s, not %q", oneOf(audit.Kinds()), kind)
		}
		return a.run(cmd.Context(), inEnvironment, args, func(ctx context.Context, w work) error {
			return a.showActivity(f.limit, w.Activity(ctx, w.project, w.environment, client.ActivityQuery{Kind: kind, From: q.From, To: q.To, Actor: q.Actor}))
		})
	}
	return cmd
}

func (f *auditFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "earliest time: an age (90m, 12h, 7d), a UTC day or an RFC 3339 timestamp")
	flags.StringVar(&f.until, "until", "", "latest time: an age, a UTC day or an RFC 3339 timestamp")
	flags.StringVar(&f.actor, "actor", "", `username, "token:NAME", "webhook", or a build such as "build 7"`)
	flags.IntVar(&f.limit, "limit", 50, "maximum number of items to show (0 for all)")
}

func (f auditFlags) query(now time.Time) (client.AuditQuery, error) {
	if f.limit < 0 {
		return client.AuditQuery{}, usage("--limit must not be negative")
	}
	q := client.AuditQuery{Actor: f.actor, Action: f.action, Resource: strings.Trim(f.resource, "/")}
	var err error
	if q.From, err = parseTime("--since", f.since, now, 0); err != nil {
		return client.AuditQuery{}, err
	}
	q.To, err = parseTime("--until", f.until, now, 24*time.Hour-time.Microsecond)
	return q, err
}

// parseTime parses the value of a flag: an age, a UTC day or an RFC 3339 time. It adds intoDay to
// the beginning of a day.
func parseTime(flag, text string, now time.Time, intoDay time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil && strings.HasSuffix(text, "d") && days >= 0 {
		return now.AddDate(0, 0, -days), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Add(intoDay), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, usage("%s must be an age (90m, 12h, 7d), a day (2026-03-14) or a timestamp (2026-03-14T15:09:26Z), not %q", flag, text)
}

func (a *application) showAudit(limit int, records iter.Seq2[wire.AuditRecord, error]) error {
	return showFirst(a, limit, "audit records", records, []render.Column{
		{Name: "WHEN (UTC)", Whole: true},
		{Name: "WHO", Whole: true},
		{Name: "ACTION", Whole: true},
		{Name: "RESOURCE", Tail: true, Cap: 32},
		{Name: "CHANGE", Rank: 1},
		{Name: "FROM", Rank: 2},
		{Name: "REQUEST", Rank: 3},
	}, auditRow)
}

func (a *application) showActivity(limit int, items iter.Seq2[wire.Activity, error]) error {
	return showFirst(a, limit, "entries", items, []render.Column{
		{Name: "WHEN (UTC)", Whole: true},
		{Name: "WHO", Whole: true},
		{Name: "ACTION", Whole: true},
		{Name: "RESOURCE", Tail: true, Cap: 32},
		{Name: "STATUS"},
		{Name: "CHANGE", Rank: 1},
		{Name: "REQUEST", Rank: 2},
	}, func(e wire.Activity) []render.Cell {
		resource := strings.TrimPrefix(e.Resource, "projects/"+e.Project+"/")
		if e.KeyName != "" {
			resource += " (" + string(e.KeyName) + ")"
		}
		cells := auditRow(e.AuditRecord)
		status := render.Cell{Text: string(e.Status), Tone: deployTone(wire.Deployment{Status: string(e.Status)})}
		return []render.Cell{cells[0], cells[1], cells[2], {Text: resource}, status, cells[4], cells[6]}
	})
}

func auditRow(r wire.AuditRecord) []render.Cell {
	action := r.Action
	if r.Outcome != "succeeded" {
		action += " (" + r.Outcome + ")"
	}
	cells := render.Plainly(minute(r.At), who(r.Actor), action, r.Resource, changes(r), r.ClientAddress, r.RequestID)
	if r.Outcome == "failed" {
		cells[2].Tone = render.Bad
	}
	return cells
}

func who(actor wire.AuditActor) string {
	if actor.Kind == "anonymous" {
		return strings.TrimSpace("? " + actor.Name)
	}
	return actor.Name
}

func changes(r wire.AuditRecord) string {
	var before, after map[string]any
	if json.Unmarshal(r.Old, &before) != nil || json.Unmarshal(r.New, &after) != nil {
		return ""
	}
	names := maps.Clone(before)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, after)
	var all []string
	for name := range names {
		switch {
		case before == nil:
			all = append(all, name+" "+value(after[name]))
		case after == nil:
			all = append(all, name+" "+value(before[name]))
		default:
			all = append(all, fmt.Sprintf("%s %s → %s", name, value(before[name]), value(after[name])))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(text)
}
