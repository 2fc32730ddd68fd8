// Sluice is the command line of Sluice, for terminals and scripts. The pages in
// scripts/sluice/docs are generated from its help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/scripts/sluice/internal/cli"
)

// version and commit identify a release. The linker sets them (scripts/release).
var version, commit string //nolint:gochecknoglobals // the linker can only set globals

func main() { os.Exit(run()) }

// run cancels the command on the first Ctrl-C. A second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	env := cli.System(time.Now)
	if version != "" {
		env.Build.Version, env.Build.Commit = version, commit
	}
	return cli.Main(ctx, env, os.Args[1:])
}
