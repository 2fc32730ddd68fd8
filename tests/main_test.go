// Package tests looks at a running stack from outside, through its ingress and its
// management API, in files by theme, and holds it to the promises of README.md. The
// stack is the real one of emulators/stack; every test works in a project of its own.
package tests

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// progressDeadline is how long a rollout may make no progress here; two minutes by
// default.
const progressDeadline = 15 * time.Second

var (
	// world is the stack that all tests here share.
	world *stack.Stack

	// scanner is a secret-scanning program that the stack trusts, with the key scannersKey.
	scanner = stacktest.NewScanner("scanner")

	// collector gets the spans of world's functions, of traces that their callers have sampled.
	collector *spantest.Receiver
)

const scannersKey = "first"

func TestMain(m *testing.M) {
	var end func()
	collector, end = spantest.Start()
	code := stacktest.Main(m, func(_ string, o *stack.Options) error {
		if err := scanner.Publish(scannersKey); err != nil {
			return err
		}
		o.PortBase = 18180
		o.Env = map[string]map[string]string{
			"deploys": {"PROGRESS_DEADLINE": progressDeadline.String()},
			"keys":    {"LEAK_PROGRAMS": scanner.Setting()},
			"checker": {"DENIALS_LOGGED_PER_SECOND": "1000"}, // other tests' denials must not crowd one's own out
		}
		for _, function := range []string{"apps", "builds", "checker", "console", "deploys", "keys", "rollup", "session", "usage", "webhook", "wiring"} {
			if o.Env[function] == nil {
				o.Env[function] = map[string]string{}
			}
			o.Env[function]["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.URL
			o.Env[function]["OTEL_TRACES_SAMPLER"] = "parentbased_always_off"
			o.Env[function]["OTEL_BSP_SCHEDULE_DELAY"] = "200"
		}
		return nil
	}, func(s *stack.Stack) { world = s })
	end()
	os.Exit(code)
}
