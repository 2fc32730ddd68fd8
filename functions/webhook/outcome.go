package webhook

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/image"
)

// actor is who the history says made what a call asked for: a token is the app's
// and no person's.
const actor = "webhook"

// content is which bytes the call's image is.
type content struct{ digest, note string }

// resolve asks the registry about the call's image, if that is going to be
// deployed. It comes before the transaction, which must not wait for strangers; a
// call that becomes a deployment in between goes without a digest.
func (s *Service) resolve(ctx context.Context, ref app.Ref, call hook.Call) (content, error) {
	if call.Image == "" || image.Check(call.Image) != nil {
		return content{}, nil //nolint:nilerr // outcome says what is wrong with it
	}
	a, err := s.apps.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return content{}, err
	}
	if a.Kind() != app.ImageApp {
		return content{}, nil
	}
	digest, note := s.registry.Resolve(ctx, call.Image)
	return content{digest: digest, note: note}, nil
}

// outcome is what a call adds to an app. Problems: those of [hook.Decide],
// invalid_image.
func (c content) outcome(a app.App, call hook.Call, now time.Time) (hook.Outcome, error) {
	d, err := hook.Decide(a, call)
	if err != nil {
		return hook.Outcome{}, err
	}
	out := hook.Outcome{Decision: d}
	switch d.Action {
	case hook.Deploy:
		if err := image.Check(d.Image); err != nil {
			return hook.Outcome{}, err
		}
		out.Revision = deploy.New(d.Image, c.digest, deploy.Webhook, actor, now)
		out.Revision.Commit, out.Revision.Note = d.Commit, c.note
	case hook.Build:
		out.Build = deploy.NewBuild(*a.GitSource, d.Commit, deploy.Webhook, actor, now)
	case hook.Ignore, hook.Pong:
	}
	return out, nil
}
