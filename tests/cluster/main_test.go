// Package cluster holds Sluice, installed by its chart on a real cluster, to what only one
// can show: pods that are killed and that hang, upgrades under load, builds, functions that
// wake from zero, and an uninstall after which nothing is lost.
//
// SLUICE_STACK names the file that describes the cluster ("make cluster" writes it); without
// it there is nothing to test. Processes of pods are found in /proc, so those tests need a
// node that is this machine.
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

// world is the cluster.
var world *stack.Stack

// The section of tests/REPORT.md that this package keeps.
var (
	book = report.Open("cluster")
	seen = book.Tests("What only a cluster shows", "On one node with real Kubernetes, Knative, Tekton and Traefik (`make cluster`), which also runs the tests of "+
		"`tests`, `tests/attack` and `tests/runtime` that are not about the local stack's own insides.", []string{"what happens", "must"}, "seen")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !stacktest.Elsewhere() {
		fmt.Println("no cluster: SLUICE_STACK is not set")
		os.Exit(0)
	}
	os.Exit(book.Close(stacktest.Main(m, nil, func(s *stack.Stack) { world = s })))
}
