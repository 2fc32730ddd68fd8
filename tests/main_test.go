// Package tests tests a running stack through its ingress and its management API. README.md lists
// the promises that the tests verify. Each test uses its own project.
package tests

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const progressDeadline = 15 * time.Second

var (
	world *stack.Stack // shared by all tests

	// scanner is a secret scanner that the stack trusts.
	scanner = stacktest.NewScanner("scanner")

	// collector receives the spans of sampled traces.
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
			"checker": {"DENIALS_LOGGED_PER_SECOND": "1000"}, // enough for all parallel tests
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
