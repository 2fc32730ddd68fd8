// Package chaos takes a stack's parts away, in every way in which a network, a machine
// and an operator can, and looks at what clients see of the gate, the management API,
// webhooks, deploys, the rollup, quotas, acknowledged changes and events (promises G1, F1, F5, F7, P8, U1, A9, D14). It has a stack to
// itself.
//
// [TestFaults] is the table: for each fault and each of these it says what must
// happen, and looks. All of a fault's cells share one outage, and each fault leaves
// the stack healthy, which is part of every cell. The replicas' ceiling is lowered
// from 90 s to 10 s.
//
// Faults are put on the way by toxiproxy, which stands between the processes and the
// store, one for each checker and one for all else, and between the functions and
// the API server; by signals to real processes; by a limit of the kernel on the size
// of log files; and by package stepped for the clock.
package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/chaos/stepped"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ceiling is the replicas' here, lowered so that tests run in seconds; not so low that
// a store which a busy machine lets wait for some seconds looks like one that is away.
const ceiling = 10 * time.Second

// maxUnshared is when replicas that cannot share counts stop to trust quotas, lowered
// for the same reason.
const maxUnshared = 3 * time.Second

// The stack's ports begin at portBase. What stands between its processes has the
// ports below.
const (
	portBase      = 20380
	functionsPort = "127.0.0.1:20379" // the functions' way to the store
	checker0Port  = "127.0.0.1:20378" // the replicas'
	checker1Port  = "127.0.0.1:20377"
	apiPort       = "127.0.0.1:20376" // the functions' way to the API server
	sinkPort      = "127.0.0.1:20375" // where events go
	issuerPort    = "127.0.0.1:20374" // who issues tokens to pipelines
)

var (
	world *stack.Stack
	clock *atomic.Int64 // seconds that the functions' wall clock is set off

	// scanner is a secret-scanning program that the stack trusts, with the key scannersKey.
	scanner = stacktest.NewScanner("scanner")

	toStore   networks // functions, checker-0, checker-1
	toCluster *network
	sink      *eventSink
	ci        *pipelines
)

const scannersKey = "first"

func TestMain(m *testing.M) {
	os.Exit(book.Close(stacktest.Main(m, prepare, func(s *stack.Stack) { world = s })))
}

func prepare(dir string, o *stack.Options) error {
	if err := errors.Join(connect(), scanner.Publish(scannersKey)); err != nil {
		return err
	}
	if long.Enabled() { // only then a fault moves the clock
		if err := steppedClock(dir, o); err != nil {
			return err
		}
	}
	var err error
	if sink, err = listenForEvents(sinkPort); err != nil {
		return err
	}
	if ci, err = issueTokens(issuerPort); err != nil {
		return err
	}
	o.PortBase, o.APIServer = portBase, apiPort
	o.NoLiveness = true            // tests stop a checker for longer
	o.Untimed = []string{"rollup"} // an event during another's run is taken without one of its own
	o.Env = map[string]map[string]string{
		"checker":   {"MAX_STALENESS": ceiling.String(), "CANARY_INTERVAL": "1s", "MAX_UNSHARED": maxUnshared.String()},
		"deploys":   {"EVENTS": "true", "K_SINK": "http://" + sinkPort},
		"keys":      {"EVENTS": "true", "LEAK_PROGRAMS": scanner.Setting()},
		"wiring":    {"EVENTS": "true"},
		"rollup":    {"EVENTS": "true"},
		"apps":      {"OIDC_ISSUERS": ci.address},
		"webhook":   {"OIDC_ISSUERS": ci.address},
		"checker-0": {"FIRESTORE_EMULATOR_HOST": checker0Port},
		"checker-1": {"FIRESTORE_EMULATOR_HOST": checker1Port},
	}
	for _, name := range functions() {
		if o.Env[name] == nil {
			o.Env[name] = map[string]string{}
		}
		o.Env[name][stepped.Variable] = clockFile(dir)
		if name != "checker" {
			o.Env[name]["FIRESTORE_EMULATOR_HOST"] = functionsPort
		}
	}
	return nil
}

// steppedClock builds the functions with a clock that tests can set.
func steppedClock(dir string, o *stack.Options) error {
	overlay := filepath.Join(dir, "overlay")
	if err := os.MkdirAll(overlay, 0o700); err != nil {
		return err
	}
	file, err := stepped.Overlay("../..", overlay, "functions", "shared")
	if err != nil {
		return err
	}
	o.BuildFlags = []string{"-overlay", file}
	clock, err = stepped.Open(clockFile(dir))
	return err
}

func clockFile(dir string) string { return filepath.Join(dir, "clock") }

func functions() []string {
	return []string{"checker", "session", "keys", "usage", "rollup", "apps", "wiring", "webhook", "deploys", "builds", "console"}
}

// connect makes the networks, all of which let everything through.
func connect() error {
	store := "127.0.0.1:" + strconv.Itoa(portBase+1)
	for _, address := range []string{functionsPort, checker0Port, checker1Port} {
		n, err := newNetwork(address, store)
		if err != nil {
			return err
		}
		toStore = append(toStore, n)
	}
	var err error
	toCluster, err = newNetwork(apiPort, "127.0.0.1:"+strconv.Itoa(portBase+2))
	return err
}

// wait lets a fixed time pass that the test is about.
func wait(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}
