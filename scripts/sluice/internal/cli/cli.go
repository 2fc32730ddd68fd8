// Package cli implements the sluice command. Each file defines the commands of one noun; command.go
// describes a command. Commands use only the typed client of the management API.
//
// These rules apply to every command:
//
//   - Results go to standard output; progress, warnings, prompts and errors go to standard error.
//   - -o json and -o yaml print the types of the API. A list is always complete:
//     {"items":[…],"next_page_token":""}. A change without a response body prints nothing.
//   - An error is one line, "error: <message> (<code>)". The code comes from the API, is http_NNN
//     if the response is not from Sluice, or is one of this package, e.g. usage.
//   - Harmful changes ask for confirmation on a terminal; some need a flag in scripts.
//   - The server, token, project and environment come from a flag, a SLUICE_ variable or the
//     context, in this order. A context's token is sent only to the context's URL.
//   - Passwords come from a prompt without echo or from --password-stdin.
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

// Env is the environment of a command.
type Env struct {
	Terminal *terminal.Terminal
	Getenv   func(string) string
	Now      func() time.Time
	Build    Build
	Tries    int           // maximum tries of a read; 0 is the client's default
	Poll     time.Duration // interval of --wait; 0 is one second

	// Browse opens a URL with a program, or with the system's browser if program is "".
	Browse func(ctx context.Context, program, address string) error
}

// Build is the version of the program.
type Build struct {
	Version string `json:"version"` // e.g. "v1.2.0"; "(devel)" for a working copy
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// System returns the environment of the process.
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

// Main runs one command and returns the exit status.
func Main(ctx context.Context, env Env, args []string) int {
	a := newApplication(env)
	root := a.root() //nolint:contextcheck // cobra passes ctx to the command
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

// Root returns the command tree, from which the manual is generated.
func Root() *cobra.Command {
	return newApplication(Env{Terminal: &terminal.Terminal{}, Getenv: func(string) string { return "" }}).root()
}

type application struct {
	env      Env
	term     *terminal.Terminal
	contexts func() (contexts.Dir, error)
	flags    flags
	filter   func(value any) error // prints a value through --jq; nil without --jq
	running  bool                  // the command has started; before that, all errors are usage errors
}

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
