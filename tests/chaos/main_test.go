// Package chaos checks the effects of faults on clients: faults of the network, of machines and of
// parts of the stack (promises G1, F1, F5, F7, P8, U1, A9, D14).
//
// [TestFaults] applies one fault after the other. Under each fault, it checks every surface: a
// part of the product with its own expectation, such as the gate. After each fault, the stack
// must be healthy. The ceiling of the replicas is 10 s instead of 90 s.
//
// Toxiproxy causes the network faults, between the store and each checker, the store and the
// functions, and the functions and the API server. Other faults are signals to processes, a file
// size limit, and the clock of package testclock.
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
	"github.com/sluicegate/sluice/tests/chaos/testclock"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// ceiling is reduced so that tests take seconds. It exceeds delays of the store on a busy
// machine.
const ceiling = 10 * time.Second

// maxUnshared is reduced so that tests take seconds.
const maxUnshared = 3 * time.Second

// The proxies, the event sink and the token issuer use the ports below portBase.
const (
	portBase      = 20380
	functionsPort = "127.0.0.1:20379"
	checker0Port  = "127.0.0.1:20378"
	checker1Port  = "127.0.0.1:20377"
	apiPort       = "127.0.0.1:20376"
	sinkPort      = "127.0.0.1:20375"
	issuerPort    = "127.0.0.1:20374"
)

var (
	world *stack.Stack
	clock *atomic.Int64 // offset of the functions' clock, in seconds

	// scanner is a trusted secret-scanning program that signs with scannersKey.
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
	if long.Enabled() { // the faults that change the clock run only then
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
	o.Untimed = []string{"rollup"} // rollup ignores an event during a run
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
		o.Env[name][testclock.Variable] = clockFile(dir)
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
	file, err := testclock.Overlay("../..", overlay, "functions", "shared")
	if err != nil {
		return err
	}
	o.BuildFlags = []string{"-overlay", file}
	clock, err = testclock.Open(clockFile(dir))
	return err
}

func clockFile(dir string) string { return filepath.Join(dir, "clock") }

func functions() []string {
	return []string{"checker", "session", "keys", "usage", "rollup", "apps", "wiring", "webhook", "deploys", "builds", "console"}
}

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

func wait(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}
