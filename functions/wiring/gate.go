package wiring

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice/shared/app"
)

// What a gate's message says besides the answers of the ingress.
const (
	driftMessage = "The gate was changed from outside; it is being put back."
	stuckMessage = "The cluster does not take the change yet; trying again."
)

var (
	errSame      = errors.New("the gate already says so")
	errOvertaken = errors.New("the gate was switched meanwhile")
)

// record moves an app's gate on from the state that a was read in, in one
// transaction. If the gate has been switched or moved since, nothing is written:
// what was found out is about the past.
func (s *Service) record(ctx context.Context, a app.App, state app.GateState, message string) error {
	_, err := s.apps.UpdateApp(ctx, a.Ref(), func(is app.App) (app.App, error) {
		next, err := advance(is, a, app.Gate{State: state, Since: s.now().UTC(), Message: message})
		if err != nil {
			return app.App{}, err
		}
		is.Gate = next
		return is, nil
	})
	if errors.Is(err, errSame) || errors.Is(err, errOvertaken) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record gate of %s: %w", a.Ref(), err)
	}
	s.log.InfoContext(ctx, "gate", "app", a.Ref().String(), "state", string(state), "message", message)
	return nil
}

// advance is the gate that an app shall have when is what is stored and was what
// was looked at. A message that changes does not start the state anew.
func advance(is, was app.App, next app.Gate) (app.Gate, error) {
	if is.RequireAPIKey != was.RequireAPIKey || is.Gate.State != was.Gate.State || !is.Gate.Since.Equal(was.Gate.Since) {
		return app.Gate{}, errOvertaken
	}
	if next.State == is.Gate.State {
		if next.Message == is.Gate.Message {
			return app.Gate{}, errSame
		}
		next.Since = is.Gate.Since
	}
	return next, nil
}

// unproven is what becomes of a gate whose proof has failed.
func unproven(state app.GateState, sought proof, got answer) (app.GateState, string) {
	if sought == proveEngaged && state == app.Engaged && got.passes() {
		return app.Pending, got.message()
	}
	return state, got.message()
}
