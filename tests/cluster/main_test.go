// Package cluster tests Sluice on a real cluster: killed and hung pods, upgrades, builds,
// functions scaled to zero, and an uninstall.
//
// SLUICE_STACK is the file that describes the cluster ("make cluster" writes it). Some tests
// find processes of pods in /proc, so they need a node on this machine.
package cluster

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/report"
	"github.com/sluicegate/sluice/tests/stacktest"
)

var world *stack.Stack

var (
	book = report.Open("cluster")
	seen = book.Tests("Cluster tests", "`make cluster-test` runs these tests on one node with real Kubernetes, Knative, Tekton and Traefik (`make cluster`). "+
		"It also runs the tests of `tests`, `tests/attack` and `tests/runtime` that do not need a local stack.", []string{"event", "expected"}, "measured")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !stacktest.Elsewhere() {
		fmt.Println("no cluster tests: SLUICE_STACK is not set")
		os.Exit(0)
	}
	os.Exit(book.Close(stacktest.Main(m, nil, func(s *stack.Stack) { world = s })))
}
