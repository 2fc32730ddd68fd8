// Package replicas looks at what several checkers allow together, with three and with
// eight of them: the plan's rate, and no more of a quota than what they can allow before
// they have told each other (promises P5, P6).
package replicas

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/report"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// firstBase is where the ports of the first stack here begin.
const firstBase = 21180

// numbers are the numbers of checkers to test with. The other packages test with two.
// Eight checkers are built without the race detector: with it, two processors cannot run them.
func numbers() []int { return long.Pick([]int{3}, []int{3, 8}) }

// stacks are those that were started so far, by their number of checkers. Tests here take
// turns.
var (
	stacks = map[int]*stack.Stack{}
	dir    string
)

var (
	book     = report.Open("replicas")
	together = book.Tests("Several checkers together", "What checkers allow together, asked directly, each as often as the others unless a row says otherwise.",
		[]string{"checkers", "asked", "must"}, "seen")
)

func TestMain(m *testing.M) {
	if !long.Enabled() {
		book.Reduce()
	}
	os.Exit(book.Close(stacktest.InFolder(func(folder string) (code int, err error) {
		dir = folder
		code = m.Run()
		for _, s := range stacks {
			err = errors.Join(err, s.Close())
		}
		return code, err
	})))
}

// stackOf gives the stack with n checkers, which it starts if need be.
func stackOf(t *testing.T, n int) *stack.Stack {
	t.Helper()
	if s := stacks[n]; s != nil {
		return s
	}
	s, err := stack.Start(t.Context(), stack.Options{
		Root: "../..", Dir: filepath.Join(dir, strconv.Itoa(n)), PortBase: firstBase + 100*len(stacks), Log: os.Stderr, Race: n < 8 && long.Enabled(), Checkers: n, ManyCalls: true,
		Env: map[string]map[string]string{"checker": {"CONNECTION_AGE": connectionAge.String()}},
	})
	check.OK(t, err)
	stacks[n] = s
	return s
}
