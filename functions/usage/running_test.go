package usage

import (
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestCallsInProgress(t *testing.T) {
	t.Parallel()
	r := running{most: 3}
	enter := func(names ...string) func() {
		t.Helper()
		leave, err := r.enter(names...)
		check.OK(t, err)
		return leave
	}
	refused := func(names ...string) {
		t.Helper()
		if _, err := r.enter(names...); !problem.Is(err, problem.RateLimited) {
			t.Errorf("%q: got %v, want rate_limited", names, err)
		}
	}
	first := enter("project a", "caller x")
	refused("project a", "caller y")
	refused("project b", "caller x")
	enter("project b", "caller y") // the refused call has left no name
	third := enter("project c", "caller z")
	refused("project d", "caller w")
	third()
	enter("project d", "caller w")
	refused("project c", "caller z")
	first()
	enter("project a", "caller x")
}
