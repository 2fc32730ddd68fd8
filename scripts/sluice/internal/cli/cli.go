// Package cli is the command line: one file per noun, over the typed client of the
// management API alone. It has no way to the document store or the cluster; the first
// admin of an installation comes from the session function's environment, and "admin
// create-user" makes everyone after.
//
// A command is its description for cobra, the scope that it works in, and one call of
// the client: see command.go.
//
// What holds for every command:
//
//   - What was asked for goes to standard output; progress, warnings, questions and
//     errors go to standard error. -o json and yaml are the API's own shapes, a list
//     always whole: {"items":[…],"next_page_token":""}. Changes that the API answers
//     without a body print nothing there. --jq prints what an expression makes of the
//     JSON, a result a line; it sees that JSON and nothing else, and is refused before
//     anything is asked if it is none.
//   - An error is one line, "error: <message> (<code>)": the API's code, or one of
//     usage, confirmation_required, unauthenticated, unreachable, timeout,
//     interrupted, aborted, deploy_failed, superseded, jq_failed, failed, and http_NNN for an
//     answer that was not Sluice's. Exit status: see failure.go.
//   - What harms asks on a terminal. In a script it goes ahead, but for a revocation,
//     the removal of a member and what deletes: those refuse without --yes, or for what
//     deletes --confirm NAME. --yes answers every question with yes. See guard.go.
//   - The server, token, project and environment come from the flag, then the SLUICE_
//     variable, then the context. A context's token is sent to the context's own URL
//     and nowhere else.
//   - Reads are tried again by the client; changes are sent once.
//   - Passwords come from a question without echo or --password-stdin, never from a
//     flag or the environment.
package cli

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
)

// Env is the world around one command.
type Env struct {
	Terminal *terminal.Terminal
	Getenv   func(string) string
	Now      func() time.Time
	Build    Build
	Tries    int           // of a read; 0 is the client's default
	Poll     time.Duration // between two looks while waiting; 0 is one second

	// Browse opens an address with a program, the system's own if it is "".
	Browse func(ctx context.Context, program, address string) error
}

// Build says which program this is.
type Build struct {
	Version string `json:"version"` // e.g. "v1.2.0"; "(devel)" of a working copy
	Commit  string `json:"commit"`  // "" when unknown
	Go      string `json:"go"`
}

// System is the process's own world.
func System(now func() time.Time) Env {
	return Env{
		Terminal: terminal.Of(os.Stdin, os.Stdout, os.Stderr, os.Getenv),
		Getenv:   os.Getenv,
		Now:      now,
		Build:    build(),
		Browse:   browse,
	}
}

func build() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}

// Main runs one command and gives the exit status.
func Main(ctx context.Context, env Env, args []string) int {
	a := newApplication(env)
	root := a.root() //nolint:contextcheck // cobra hands ctx to the command
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !a.running {
		err = usageError{err}
	}
	return a.report(ctx, cmd, err)
}

// Root is the tree of commands, for the pages that are made from it.
func Root() *cobra.Command {
	return newApplication(Env{Terminal: &terminal.Terminal{}, Getenv: func(string) string { return "" }}).root()
}

// application is what all commands of one run share.
type application struct {
	env      Env
	term     *terminal.Terminal
	contexts func() (contexts.Dir, error)
	flags    flags
	filter   func(value any) error // shows what --jq makes of a value; nil without it
	running  bool                  // a command has begun: what fails from here on is no misuse
}

// flags are those that every command takes.
type flags struct {
	context     string
	project     string
	environment string
	output      string
	jq          string
	timeout     time.Duration
	verbose     bool
}

func newApplication(env Env) *application {
	return &application{
		env: env, term: env.Terminal,
		contexts: func() (contexts.Dir, error) { return contexts.Default(env.Getenv) },
	}
}
