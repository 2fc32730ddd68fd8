package wiring

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sluicegate/sluice/shared/app"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	ref := app.Ref{Namespace: "n-s", Name: "a"}
	type id struct{}
	synctest.Test(t, func(t *testing.T) {
		j := newJobs()
		runs := 0
		work := func(ctx context.Context) {
			if runs++; runs == 1 {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), errInterrupted) {
					t.Errorf("ended by %v", context.Cause(ctx))
				}
			} else if ctx.Err() != nil || ctx.Value(id{}) != "news" {
				t.Errorf("works on the news in the context of %v, %v", ctx.Value(id{}), ctx.Err())
			}
		}
		done := make(chan struct{})
		go func() {
			j.run(t.Context(), ref, false, work)
			close(done)
		}()
		synctest.Wait()
		j.run(t.Context(), ref, false, work) // nothing new: leaves it alone
		synctest.Wait()
		if runs != 1 {
			t.Fatalf("%d runs at once", runs)
		}
		ctx, end := context.WithCancel(context.WithValue(t.Context(), id{}, "news"))
		j.run(ctx, ref, true, work) // news: starts over
		end()                       // its event is answered
		<-done
		if runs != 2 {
			t.Errorf("%d runs, want 2", runs)
		}
		if len(j.running) != 0 {
			t.Error("a job that is over is still known")
		}
	})
}

func TestJobThatPanics(t *testing.T) {
	t.Parallel()
	j := newJobs()
	ref := app.Ref{Namespace: "n-s", Name: "a"}
	func() {
		defer func() { _ = recover() }()
		j.run(t.Context(), ref, false, func(context.Context) { panic("x") })
	}()
	ran := false
	j.run(t.Context(), ref, false, func(context.Context) { ran = true })
	if !ran {
		t.Error("an app whose job has panicked is locked")
	}
}
