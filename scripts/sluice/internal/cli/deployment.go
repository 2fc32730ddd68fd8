package cli

import (
	"context"
	"crypto/rand"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appUpdate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update APP", Short: "Deploy an image, or change the host or port", SuggestFor: []string{"deploy"},
		Long: `Deploy a new image of an app. The previous revision serves requests until the new one is live.
With --wait, the command ends when the new revision is live. If the revision fails, the
command fails with the reason.

--host and --port change the app's host and port instead. The app stops serving on its
previous host. The gate is pending until it is verified on the new host; --wait waits for
that. A new port restarts the app's pods. Requests fail until a pod listens on it.`,
		Example: `  sluice app update hello --image registry.example.com/hello:v2 --wait
  sluice app update hello --host hello.example.com --port 3000`,
	}
	f := cmd.Flags()
	image := f.String("image", "", "full image reference, with a tag or a digest")
	host := f.String("host", "", "host of the app's URL, e.g. shop.example.com")
	port := f.Int("port", 0, "port that the app listens on")
	cmd.MarkFlagsMutuallyExclusive("image", "host")
	cmd.MarkFlagsMutuallyExclusive("image", "port")
	waits := a.waitFlags(cmd)
	deploy := a.deployed(waits, func(ctx context.Context, w work) (wire.Deployment, error) {
		w, _, err := w.once(ctx)
		if err != nil {
			return wire.Deployment{}, err
		}
		return w.Deploy(ctx, w.project, w.environment, w.args[0], *image)
	})
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		update := wire.UpdateApp{Host: ifSet(f, "host", host), Port: ifSet(f, "port", port)}
		switch {
		case update != wire.UpdateApp{}:
			return showResult(a.showApp, func(ctx context.Context, w work) (wire.App, error) {
				return a.rewire(ctx, w, waits, update)
			})(ctx, w)
		case *image == "":
			return usage("pass --image, --host or --port")
		}
		return deploy(ctx, w)
	})
}

func (a *application) appRollback() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollback APP", Short: "Deploy an earlier revision again",
		Long: `Deploy an earlier revision of an app again, as a new revision in the history. The default is
the last revision before the current one that ever had a ready pod. If no revision had a ready
pod, it is the nearest earlier revision that did not fail. Builds that were requested before
the rollback do not undo it. On a terminal, the command asks for confirmation.

A second run rolls back again. To prevent that, pass --from-revision: if another revision is
current, the command changes nothing and shows the current revision.`,
		Example: `  sluice app rollback hello --wait
  sluice app rollback hello --revision 3
  sluice app rollback hello --from-revision 7`,
	}
	revision := cmd.Flags().Int64("revision", 0, "revision to deploy (default the last one that had a ready pod)")
	from := cmd.Flags().Int64("from-revision", 0, "revision that must be current; otherwise nothing changes")
	confirm := a.confirmation(cmd, promptOnly)
	return a.deploying(cmd, func(ctx context.Context, w work) (wire.Deployment, error) {
		target := "the previous revision that worked"
		if cmd.Flags().Changed("revision") {
			if *revision < 1 {
				return wire.Deployment{}, usage("--revision must be at least 1")
			}
			target = "revision " + number(*revision)
		}
		if cmd.Flags().Changed("from-revision") && *from < 1 {
			return wire.Deployment{}, usage("--from-revision must be at least 1")
		}
		w, current, err := w.once(ctx)
		if err != nil {
			return wire.Deployment{}, err
		}
		if *from > 0 && current.Revision != *from {
			return a.unchanged(ctx, w, *from)
		}
		if err := confirm.ask(ctx, "Roll "+w.args[0]+" of "+w.place()+" back to "+target+"?", w.args[0]); err != nil {
			return wire.Deployment{}, err
		}
		d, err := w.Rollback(ctx, w.project, w.environment, w.args[0], *revision)
		if *from > 0 && client.HasCode(err, "precondition_failed") {
			return a.unchanged(ctx, w, *from)
		}
		return d, err
	})
}

func (a *application) unchanged(ctx context.Context, w work, from int64) (wire.Deployment, error) {
	for d, err := range w.Deployments(ctx, w.project, w.environment, w.args[0]) {
		if err == nil {
			a.note("Nothing was changed: revision %d of %s is current, not revision %d.", d.Revision, w.args[0], from)
		}
		return d, err
	}
	return wire.Deployment{}, failed("no_revision", "%s has no revision yet.", w.args[0])
}

// once returns w with a client whose calls are idempotent and need the app's current revision.
func (w work) once(ctx context.Context) (work, wire.App, error) {
	a, err := w.App(ctx, w.project, w.environment, w.args[0])
	w.Client = w.WithIdempotencyKey(rand.Text()).Matching(api.RevisionTag(a.Revision))
	return w, a, err
}

func (a *application) appPromote() *cobra.Command {
	cmd := &cobra.Command{
		Use: "promote APP", Short: "Deploy a revision from another environment",
		Long: `Deploy a revision of the app of the same name in another environment of the project. The
revision must have had a ready pod there. An app with a git source cannot receive a promotion.`,
		Example: `  sluice app promote hello --from staging --environment prod --wait`,
	}
	from := cmd.Flags().String("from", "", "source environment (required)")
	revision := cmd.Flags().Int64("revision", 0, "revision in the source environment (default the newest that had a ready pod)")
	return a.deploying(cmd, func(ctx context.Context, w work) (wire.Deployment, error) {
		if *from == "" {
			return wire.Deployment{}, usage("--from is required")
		}
		if cmd.Flags().Changed("revision") && *revision < 1 {
			return wire.Deployment{}, usage("--revision must be at least 1")
		}
		w, _, err := w.once(ctx)
		if err != nil {
			return wire.Deployment{}, err
		}
		return w.Promote(ctx, w.project, w.environment, w.args[0], *from, *revision)
	})
}

func (a *application) deploying(cmd *cobra.Command, deploy func(ctx context.Context, w work) (wire.Deployment, error)) *cobra.Command {
	return a.command(inEnvironment, cmd, a.deployed(a.waitFlags(cmd), deploy))
}

// deployed returns a command that starts a deployment and shows it. With --wait, it shows the
// deployment once it is live.
func (a *application) deployed(waits *waitFlags, deploy func(ctx context.Context, w work) (wire.Deployment, error)) run {
	return func(ctx context.Context, w work) error {
		app := w.args[0]
		d, err := deploy(ctx, w)
		if err == nil && waits.wait {
			d, err = a.waitLive(ctx, w, app, waits, d)
		}
		if err != nil {
			return err
		}
		fields := []render.Field{
			{Name: "App", Value: app},
			{Name: "Revision", Value: number(d.Revision)},
			{Name: "Image", Value: d.Image},
			{Name: "Digest", Value: string(d.Digest)},
			{Name: "Trigger", Value: d.Trigger},
			{Name: "Status", Value: d.Status, Tone: deployTone(d)},
		}
		if d.SourceRevision != 0 {
			fields = append(fields, render.Field{Name: "From revision", Value: sourceOf(d)})
		}
		if d.Message != "" {
			fields = append(fields, render.Field{Name: "Message", Value: string(d.Message)})
		}
		return a.showFields(d, fields)
	}
}

func (a *application) waitLive(ctx context.Context, w work, app string, waits *waitFlags, d wire.Deployment) (wire.Deployment, error) {
	err := waits.until(ctx, "revision "+number(d.Revision)+" of "+app, func(ctx context.Context, first bool) (string, bool, error) {
		if !first {
			now, err := w.Deployment(ctx, w.project, w.environment, app, d.Revision)
			if err != nil {
				return "", false, err
			}
			d = now
		}
		switch d.Status {
		case "failed":
			return "", false, failed("deploy_failed", "Revision %d of %s failed: %s", d.Revision, app, d.Message)
		case "superseded":
			return "", false, failed("superseded", "Revision %d of %s was superseded by another deployment.", d.Revision, app)
		}
		if first || d.Status == "live" {
			return d.Status, d.Status == "live", nil
		}
		idle, err := w.idle(ctx, app, d.Revision)
		if idle {
			a.note("App %s is idle: it is scaled to zero. Revision %d rolls out when the app is scaled up.", app, d.Revision)
		}
		return d.Status, idle, err
	})
	return d, err
}

func (w work) idle(ctx context.Context, name string, revision int64) (bool, error) {
	now, err := w.App(ctx, w.project, w.environment, name)
	return err == nil && now.Revision == revision && now.Deployed != nil && now.Deployed.Status == string(deploy.Idle), err
}

func deployTone(d wire.Deployment) render.Tone {
	switch d.Status {
	case "live":
		return render.Good
	case "failed":
		return render.Bad
	case "rolling_out":
		return render.Watch
	}
	return render.Faint
}

func (a *application) appHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history APP", Short: "List an app's deployment history, newest first", SuggestFor: []string{"deployments", "revisions", "log"},
		Example: `  sluice app history hello --limit 10
  sluice app history hello --jq '.items[] | select(.status == "failed") | .message'`,
	}
	limit := limited(cmd, 0)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		return showFirst(a, *limit, "deployments", w.Deployments(ctx, w.project, w.environment, w.args[0]), []render.Column{
			{Name: "REVISION", Whole: true},
			{Name: "IMAGE", Tail: true, Cap: 12},
			{Name: "COMMIT", Rank: 3},
			{Name: "TRIGGER", Rank: 2},
			{Name: "WHEN (UTC)", Whole: true},
			{Name: "STATUS", Rank: 1},
			{Name: "BY", Rank: 4},
			{Name: "MESSAGE", Rank: 5},
		}, historyRow)
	})
}

func historyRow(d wire.Deployment) []render.Cell {
	revision, trigger := number(d.Revision), d.Trigger
	if d.Current {
		revision += " (current)"
	}
	if d.SourceRevision != 0 {
		trigger += " of " + sourceOf(d)
	}
	cells := render.Plainly(revision, d.Image, short(string(d.Commit)), trigger, minute(d.DeployedAt), d.Status, d.Actor, string(d.Message))
	cells[5].Tone = deployTone(d)
	return cells
}

func sourceOf(d wire.Deployment) string {
	if d.SourceEnvironment == "" {
		return number(int64(d.SourceRevision))
	}
	return number(int64(d.SourceRevision)) + " (" + string(d.SourceEnvironment) + ")"
}

func short(commit string) string { return commit[:min(len(commit), 12)] }
