package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) requestGroup() *cobra.Command {
	return a.group("request", "Requests that the gate refused", a.requestExplain())
}

func (a *application) requestExplain() *cobra.Command {
	return a.command(inProject, &cobra.Command{
		Use: "explain ID", Short: "Say why the gate refused a request", SuggestFor: []string{"show", "why", "find"},
		Long: `Say why the gate refused a request to an app of the project, with its key. ID is the
X-Request-Id of the answer that the client got; no client is told the reason itself. You
have to be a developer or an owner, and the audit log says that you have asked.

Every checker is asked for what it remembers: its last 4096 denials, none from before it
was started. So a request is found soon after it was refused, or not at all.`,
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
			a.note("%d of %d checkers did not answer; what they remember is missing here.", e.Asked-e.Answered, e.Asked)
		}
		return nil
	})
}

func (a *application) showExplained(project string, e wire.ExplainedRequest) error {
	return a.show(e, func(s render.Screen) error {
		if len(e.Denials) == 0 {
			return s.Line("No checker remembers that it refused request %s to an app of %s. Each remembers its last 4096 denials.", e.RequestID, project)
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
	key := "not one of this project"
	switch {
	case d.KeyID != nil && d.KeyName != "":
		key = *d.KeyID + " (" + string(d.KeyName) + ")"
	case d.KeyID != nil:
		key = *d.KeyID
	}
	return []render.Field{
		{Name: "Refused", Value: stamp(d.At) + " by " + d.Replica},
		{Name: "App", Value: d.Environment + "/" + d.App},
		{Name: "Method", Value: d.Method},
		{Name: "Key", Value: key},
		{Name: "Answered", Value: d.Code},
		{Name: "Reason", Value: d.Reason, Tone: render.Bad},
		{Name: "Meaning", Value: d.Explanation},
	}
}
