// Package load sends a stack as many requests as the machine holds, over ten thousand
// keys, while keys and plans change, checkers are restarted and apps are deployed, and
// holds every answer against a model of what it may be at that moment (promises P7, F3,
// U1). At the end the usage of every key must be what the client saw, and no process
// may have grown.
//
// LOAD_TIME is the duration of the load, by default 15s, or 30s in "make test-long".
// "make load" runs ten minutes.
//
// # The model
//
// A credential is a full key as it was issued. What it may get is a list of epochs:
// from when a change was begun, its new answers may come; until a propagation window
// after the change's call returned, the old ones may still come. In between both are
// right, outside only one is. Requests are judged by when they began and ended. The
// window ends when both replicas have been seen to act on the change, and at the
// latest after 20 s; the product's ceiling is 90 s, and what is measured is reported.
//
// # The emulator
//
// Firestore's emulator sends a listened query's whole result again on every write, so
// with ten thousand keys each change of a key costs the store and both replicas ten
// thousand documents, where production sends one. Changes are therefore made one
// after another, with a pause: about one a second.
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

// defaultTime returns the duration of the load without LOAD_TIME.
func defaultTime() time.Duration { return long.Pick(15*time.Second, 30*time.Second) }

var world *stack.Stack

func TestMain(m *testing.M) {
	os.Exit(book.Close(stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = portBase
		o.Race = false // its memory would hide the programs'
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
		t.Fatalf("LOAD_TIME is %q, want 10s or more", text)
	}
	return d
}
