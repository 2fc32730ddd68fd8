// Package check provides checks that fail a test.
package check

import (
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
)

// OK fails and ends the test if err is not nil.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Equal fails the test if the values differ. The message begins with what.
func Equal(tb testing.TB, what string, want, got any, options ...cmp.Option) {
	tb.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Problem fails the test unless err is a problem with the code. If the code is "", it fails the
// test on any error.
func Problem(tb testing.TB, err error, code problem.Code) {
	tb.Helper()
	if code == "" && err != nil || code != "" && !problem.Is(err, code) {
		tb.Errorf("got the error %v, want the problem %q", err, code)
	}
}

// Closes closes c when the test ends.
func Closes(tb testing.TB, c io.Closer) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
}

// Eventually calls ready until it returns nil. It fails and ends the test after the limit.
func Eventually(tb testing.TB, what string, limit time.Duration, ready func() error) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}
