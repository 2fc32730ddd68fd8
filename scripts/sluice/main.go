// Sluice is the command line of Sluice: everything an operator does with an
// installation, in a terminal and in a script. "sluice help" is its manual; the
// pages of scripts/sluice/docs are made from it.
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

// run ends with the first Ctrl-C: what is under way is cancelled and says so. A
// second one ends the process as it would any other.
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
