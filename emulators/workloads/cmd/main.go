// The workloads emulator, as a program; see package program.
package main

import (
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/internal/program"
	"github.com/sluicegate/sluice/emulators/workloads"
)

func main() {
	program.Main("workloads", func(config *rest.Config, log *slog.Logger) (program.Controller, error) {
		return workloads.New(config, log)
	})
}
