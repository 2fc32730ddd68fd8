// Command functions contains every function and the emulators that watch the API server, so
// that only one program is linked. The first argument selects the function or emulator.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/emulators/tekton"
	"github.com/sluicegate/sluice/emulators/workloads"
	_ "github.com/sluicegate/sluice/functions/apps"
	_ "github.com/sluicegate/sluice/functions/builds"
	"github.com/sluicegate/sluice/functions/checker"
	_ "github.com/sluicegate/sluice/functions/console"
	_ "github.com/sluicegate/sluice/functions/deploys"
	_ "github.com/sluicegate/sluice/functions/keys"
	_ "github.com/sluicegate/sluice/functions/rollup"
	_ "github.com/sluicegate/sluice/functions/session"
	"github.com/sluicegate/sluice/functions/standin"
	_ "github.com/sluicegate/sluice/functions/usage"
	_ "github.com/sluicegate/sluice/functions/webhook"
	_ "github.com/sluicegate/sluice/functions/wiring"
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: functions NAME")
		os.Exit(2)
	}
	switch name := os.Args[1]; name {
	case "checker":
		checker.Main()
	case "standin":
		standin.Main()
	case "workloads-emulator":
		program.Main(name, func(config *rest.Config, log *slog.Logger) (program.Controller, error) {
			return workloads.New(config, log)
		})
	case "builds-emulator": // sends its events to $BUILDS_SINK
		program.Main(name, func(config *rest.Config, log *slog.Logger) (program.Controller, error) {
			return tekton.New(config, tekton.Options{Sink: os.Getenv("BUILDS_SINK")}, log)
		})
	default:
		funcmain.Main(name)
	}
}
