package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	exitOK              = 0
	exitFailed          = 1
	exitUsage           = 2
	exitUnauthenticated = 3
	exitNotFound        = 4
	exitInterrupted     = 130 // like a process that SIGINT ended
)

type failure struct {
	code    string
	exit    int
	message string
}

func (f failure) Error() string { return f.message }

func failed(code, format string, args ...any) error {
	return failure{code: code, exit: exitFailed, message: fmt.Sprintf(format, args...)}
}

type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (a *application) report(ctx context.Context, cmd *cobra.Command, err error) int {
	f := a.explain(ctx, err)
	lines := []failure{f}
	var answer *client.Error
	if errors.As(err, &answer) && len(answer.Fields) > 0 && answer.Code == f.code {
		lines = nil
		for _, wrong := range answer.Fields {
			lines = append(lines, failure{code: wrong.Code, message: flagMessage(cmd, wrong)})
		}
	}
	for _, l := range lines {
		_, _ = fmt.Fprintf(a.term.Err, "error: %s (%s)\n", oneLine(l.message), oneLine(l.code))
	}
	return f.exit
}

// flagMessage replaces the field at the beginning of a message with the command's flag: "--rate is a
// number". Otherwise it prepends the flag: "--name: A plan's name has …".
func flagMessage(cmd *cobra.Command, wrong wire.FieldError) string {
	field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
	name, other := map[string]string{"apps": "app", "tags": "tag", "add_tags": "add-tag", "remove_tags": "remove-tag", "expires_at": "expires", "from_environment": "from"}[field]
	if !other {
		name = strings.ReplaceAll(field, "_", "-")
	}
	if cmd.LocalNonPersistentFlags().Lookup(name) == nil {
		return wrong.Message
	}
	for _, called := range []string{wrong.Field, "git_source." + field} {
		if rest, ok := strings.CutPrefix(wrong.Message, called+" "); ok {
			return "--" + name + " " + rest
		}
	}
	return "--" + name + ": " + wrong.Message
}

func (a *application) explain(ctx context.Context, err error) failure {
	var own failure
	var misuse usageError
	var answer *client.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return failure{"interrupted", exitInterrupted, "Interrupted."}
	case errors.As(err, &own):
		return own
	case errors.As(err, &misuse):
		return failure{"usage", exitUsage, misuse.Error()}
	case errors.As(err, &answer):
		return a.explainAnswer(answer)
	case errors.Is(err, contexts.ErrNotFound):
		return failure{"not_found", exitNotFound, err.Error()}
	case errors.Is(err, contexts.ErrName):
		return failure{"usage", exitUsage, err.Error()}
	}
	return a.explainTransport(err)
}

// explainAnswer returns the server's message and code. A response without a code is not from
// Sluice: a 404 for a wrong URL must not look like a missing object.
func (a *application) explainAnswer(e *client.Error) failure {
	if e.Code == "" {
		return failure{fmt.Sprintf("http_%d", e.Status), exitFailed, fmt.Sprintf("The server returned %d %s, which is not a Sluice response. Check the server's URL.", e.Status, e.Message)}
	}
	f := failure{e.Code, exitFailed, e.Message}
	switch {
	case e.Code == "unauthenticated":
		f.exit, f.message = exitUnauthenticated, e.Message+a.signInHint()
	case e.Status == http.StatusUnauthorized:
		f.exit = exitUnauthenticated
	case e.Status == http.StatusNotFound:
		f.exit = exitNotFound
	case e.Status >= http.StatusInternalServerError && e.RequestID != "":
		f.message += " Request ID: " + e.RequestID + "."
	}
	return f
}

const signInHint = ` Run "sluice login".`

func (a *application) signInHint() string {
	if a.env.Getenv("SLUICE_TOKEN") == "" || a.flags.context != "" {
		return signInHint
	}
	return " SLUICE_TOKEN is invalid, revoked or expired."
}

func (a *application) explainTransport(err error) failure {
	var timeout interface{ Timeout() bool }
	var network net.Error
	var address *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failure{"timeout", exitFailed, fmt.Sprintf("The server did not respond within %s: %v", a.flags.timeout, err)}
	case errors.As(err, &network), errors.As(err, &address), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure{"unreachable", exitFailed, fmt.Sprintf("The server cannot be reached: %v", err)}
	}
	return failure{"failed", exitFailed, err.Error()}
}

func oneLine(s string) string {
	return render.Clean(strings.Join(strings.Fields(s), " "))
}

func named(noun, name string, err error) error { return fmt.Errorf("%s %q: %w", noun, name, err) }
