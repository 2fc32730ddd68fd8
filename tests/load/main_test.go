// Package load sends a stack as many requests as the machine sustains, with up to ten thousand
// keys. Meanwhile keys and plans change, checkers restart and apps are deployed. Every response
// must match a model (promises P7, F3, U1), usage reports must match the client's counts, and no
// process may grow.
//
// LOAD_TIME is the duration: 15s by default, 30s in "make test-long", ten minutes in "make load".
//
// # The model
//
// A change of a key begins an epoch. Responses of the new epoch are allowed from the start of the
// call. Responses of the previous epoch are allowed until both replicas have applied the change,
// at most 20 s after the call returns. (The product promises 90 s; the report has the measured
// time.) A request may get a response of any epoch between its start and its end.
//
// # The emulator
//
// After each write, Firestore's emulator resends the whole result of a listened query: for ten
// thousand keys, ten thousand documents to each replica. The test therefore makes only about one
// change per second.
package load

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const portBase = 23380

// A load of at least longTime has manyKeys, a shorter one has fewKeys.
const (
	longTime = 2 * time.Minute
	manyKeys = 10_000
)

func fewKeys() int { return long.Pick(500, 2_000) }

func defaultTime() time.Duration { return long.Pick(15*time.Second, 30*time.Second) }

var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(book.Close(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = portBase
		o.Race = false // the race detector's memory would hide that of the programs
		return nil
	}, func(s *stack.Stack) { world = s })))
}

func loadTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LOAD_TIME")
	if text == "" {
		return defaultTime()
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 10*time.Second {
		t.Fatalf("LOAD_TIME: got %q, want 10s or more", text)
	}
	return d
}
