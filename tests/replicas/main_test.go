// Package replicas tests the limits of three and eight checkers together: the plan's rate, and
// the quota plus the requests before counts are exchanged (promises P5, P6).
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

const firstBase = 21180

// numbers returns the numbers of checkers to test. Eight checkers run without the race detector:
// two processors are too slow for it.
func numbers() []int { return long.Pick([]int{3}, []int{3, 8}) }

var (
	stacks = map[int]*stack.Stack{}
	dir    string
)

var (
	book     = report.Open("replicas")
	together = book.Tests("Several checkers together", "The tests send requests directly to the checkers, and distribute them evenly unless the load is described otherwise.",
		[]string{"checkers", "load", "expected"}, "measured")
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
