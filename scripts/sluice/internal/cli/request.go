package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) requestGroup() *cobra.Command {
	return a.group("request", "Inspect requests that the gate denied", a.requestExplain())
}

func (a *application) requestExplain() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "explain ID", Short: "Show why the gate denied a request", SuggestFor: []string{"show", "why", "find"},
		Long: `Show why the gate denied a request to an app of the project, and the request's key. ID is the
X-Request-Id header of the response; clients never see the reason. The command needs the role
developer or owner, and the audit log records it.

Each checker stores its last 4096 denials in memory and loses them when it stops. Run this
command soon after the denial.`,
		Example: `  sluice request explain 7Q2ZLOKXH3BDRJ4ZC5VJ6T5MWE --project shop`,
	}, func(ctx context.Context, w work) error {
		e, err := w.ExplainRequest(ctx, w.project, w.args[0])
		if err != nil {
			return err
		}
		if err := a.showExplained(w.project, e); err != nil {
			return err
		}
		if e.Answered < e.Asked {
			a.note("%d of %d checkers did not respond; their denials are missing.", e.Asked-e.Answered, e.Asked)
		}
		return nil
	})
}

func (a *application) showExplained(project string, e wire.ExplainedRequest) error {
	return a.show(e, func(s render.Screen) error {
		if len(e.Denials) == 0 {
			return s.Line("No checker has a denial of request %s for an app of project %s. Each stores its last 4096 denials.", e.RequestID, project)
		}
		for i, d := range e.Denials {
			if i > 0 {
				if err := s.Line(""); err != nil {
					return err
				}
			}
			if err := s.Fields(denialFields(d)...); err != nil {
				return err
			}
		}
		return nil
	})
}

func denialFields(d wire.Denial) []render.Field {
	key := "not a key of this project"
	switch {
	case d.KeyID != nil && d.KeyName != "":
		key = *d.KeyID + " (" + string(d.KeyName) + ")"
	case d.KeyID != nil:
		key = *d.KeyID
	}
	return []render.Field{
		{Name: "Denied", Value: stamp(d.At) + " by " + d.Replica},
		{Name: "App", Value: d.Environment + "/" + d.App},
		{Name: "Method", Value: d.Method},
		{Name: "Key", Value: key},
		{Name: "Response", Value: d.Code},
		{Name: "Reason", Value: d.Reason, Tone: render.Bad},
		{Name: "Meaning", Value: d.Explanation},
	}
}
