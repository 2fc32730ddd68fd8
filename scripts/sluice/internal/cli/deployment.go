package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) appUpdate() *cobra.Command {
	var image string
	cmd := &cobra.Command{
		Use: "update APP", Short: "Deploy a new image", SuggestFor: []string{"deploy"},
		Long: `Deploy a new image of an app. With --wait it is done when the revision is live, and fails
with the reason when it does not get there; the revision before then keeps serving.`,
		Example: `  sluice app update hello --image registry.example.com/hello:v2 --wait`,
		Args:    takes("APP"),
	}
	cmd.Flags().StringVar(&image, "image", "", "full image reference, with a tag or a digest (required)")
	waits := a.waiting(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if image == "" {
			return usage("pass --image")
		}
		d, err := w.Deploy(ctx, w.project, w.environment, args[0], image)
		return a.follow(ctx, w, args[0], waits, d, err)
	})
	return cmd
}

func (a *application) appRollback() *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		Use: "rollback APP", Short: "Deploy an earlier revision again",
		Long: `Deploy an earlier revision of an app again: the last one before the current that was once
live, or that of --revision. It becomes a new revision in the history. Builds that were
asked for before do not undo it.`,
		Example: `  sluice app rollback hello --yes --wait
  sluice app rollback hello --revision 3`,
		Args: takes("APP"),
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "revision to go back to")
	confirm, waits := a.confirmation(cmd), a.waiting(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		target := "the last revision before the current one that was live"
		if cmd.Flags().Changed("revision") {
			if revision < 1 {
				return usage("--revision is a number from 1")
			}
			target = "revision " + number(revision)
		}
		if err := confirm.ask(ctx, "Roll "+args[0]+" of "+w.project+"/"+w.environment+" back to "+target+"?"); err != nil {
			return err
		}
		d, err := w.Rollback(ctx, w.project, w.environment, args[0], revision)
		return a.follow(ctx, w, args[0], waits, d, err)
	})
	return cmd
}

func (a *application) appPromote() *cobra.Command {
	var from string
	var revision int64
	cmd := &cobra.Command{
		Use: "promote APP", Short: "Deploy what the app runs in another environment",
		Long: `Deploy what the app of the same name runs in another environment of the project, or the
given revision of it, to this environment.`,
		Example: `  sluice app promote hello --from staging --environment prod --wait`,
		Args:    takes("APP"),
	}
	cmd.Flags().StringVar(&from, "from", "", "environment to take it from (required)")
	cmd.Flags().Int64Var(&revision, "revision", 0, "revision there; by default what rolls out there, or else what is live")
	waits := a.waiting(cmd)
	cmd.RunE = a.inEnvironment(func(ctx context.Context, w work, args []string) error {
		if from == "" {
			return usage("pass --from ENVIRONMENT")
		}
		if cmd.Flags().Changed("revision") && revision < 1 {
			return usage("--revision is a number from 1")
		}
		d, err := w.Promote(ctx, w.project, w.environment, args[0], from, revision)
		return a.follow(ctx, w, args[0], waits, d, err)
	})
	return cmd
}

// follow shows a deployment that was asked for, once it is live where the person
// wants to wait.
func (a *application) follow(ctx context.Context, w work, app string, waits *waiting, d wire.Deployment, err error) error {
	if err == nil && waits.wait {
		d, err = a.waitLive(ctx, w, app, waits, d)
	}
	if err != nil {
		return err
	}
	return a.show(d, func(s render.Screen) error {
		fields := []render.Field{
			{Name: "App", Value: app},
			{Name: "Revision", Value: number(d.Revision)},
			{Name: "Image", Value: d.Image},
			{Name: "Digest", Value: d.Digest},
			{Name: "Trigger", Value: d.Trigger},
			{Name: "Status", Value: d.Status, Tone: deployTone(d)},
		}
		if d.SourceRevision != 0 {
			fields = append(fields, render.Field{Name: "From revision", Value: number(d.SourceRevision)})
		}
		if d.Message != "" {
			fields = append(fields, render.Field{Name: "Message", Value: d.Message})
		}
		return s.Fields(fields...)
	})
}

// waitLive waits until a revision is live. One that failed, or that another took the
// place of, is a failure with its reason.
func (a *application) waitLive(ctx context.Context, w work, app string, waits *waiting, d wire.Deployment) (wire.Deployment, error) {
	err := waits.until(ctx, "revision "+number(d.Revision)+" of "+app, func(ctx context.Context, first bool) (string, bool, error) {
		if !first {
			now, err := revisionOf(ctx, w, app, d.Revision)
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
		return d.Status, d.Status == "live", nil
	})
	return d, err
}

// revisionOf reads one revision. The history begins with the newest, so it is on the
// first page unless dozens came after it.
func revisionOf(ctx context.Context, w work, app string, revision int64) (wire.Deployment, error) {
	for d, err := range w.Deployments(ctx, w.project, w.environment, app) {
		if err != nil || d.Revision == revision {
			return d, err
		}
		if d.Revision < revision {
			break
		}
	}
	return wire.Deployment{}, &client.Error{Status: 404, Code: "not_found", Message: "Revision " + number(revision) + " is not in the history."}
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
