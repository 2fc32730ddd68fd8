package check

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

type recorder struct {
	testing.TB
	failure  string
	cleanups []func()
}

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) { r.failure = "error" }
func (r *recorder) Fatal(args ...any)                 { r.failure = "fatal"; runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Fatal() }

type closer struct{ err error }

func (c closer) Close() error { return c.err }

func TestFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for i, tt := range []struct {
		run  func(*recorder)
		want string
	}{
		{func(r *recorder) { OK(r, nil) }, ""},
		{func(r *recorder) { OK(r, broken) }, "fatal"},
		{func(r *recorder) { Equal(r, "list", []int{1}, []int{1}) }, ""},
		{func(r *recorder) { Equal(r, "list", []int{1}, []int{2}) }, "error"},
		{func(r *recorder) { Problem(r, nil, "") }, ""},
		{func(r *recorder) {
			Problem(r, fmt.Errorf("read: %w", problem.FromCode(problem.NotFound)), problem.NotFound)
		}, ""},
		{func(r *recorder) { Problem(r, nil, problem.NotFound) }, "error"},
		{func(r *recorder) { Problem(r, broken, "") }, "error"},
		{func(r *recorder) { Problem(r, problem.FromCode(problem.Conflict), problem.NotFound) }, "error"},
		{func(r *recorder) { Closes(r, closer{}) }, ""},
		{func(r *recorder) { Closes(r, closer{io.ErrClosedPipe}) }, "error"},
		{func(r *recorder) { Eventually(r, "wait", time.Minute, func() error { return nil }) }, ""},
		{func(r *recorder) { Eventually(r, "wait", time.Millisecond, func() error { return broken }) }, "fatal"},
	} {
		r, done := &recorder{}, make(chan struct{})
		go func() {
			defer close(done)
			tt.run(r)
		}()
		<-done
		for _, f := range r.cleanups {
			f()
		}
		if r.failure != tt.want {
			t.Errorf("case %d: got failure %q, want %q", i, r.failure, tt.want)
		}
	}
}
