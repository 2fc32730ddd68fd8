// The builds emulator, as a program; $BUILDS_SINK is where events go. The API server
// must know PipelineRuns already. All else is as package program says.
package main

import (
	"log/slog"
	"os"

	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/builds"
	"github.com/sluicegate/sluice/emulators/internal/program"
)

func main() {
	program.Main("builds", func(config *rest.Config, log *slog.Logger) (program.Controller, error) {
		return builds.New(config, builds.Options{Sink: os.Getenv("BUILDS_SINK")}, log)
	})
}
