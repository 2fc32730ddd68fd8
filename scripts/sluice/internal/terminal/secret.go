package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// secrets asks for secrets on a real terminal.
type secrets struct {
	in     *os.File
	screen *term.Terminal // one for all questions: it may have read ahead
}

// conversation is both directions of a terminal.
type conversation struct {
	io.Reader
	io.Writer
}

// ask turns echo off before the question shows: nothing that is typed to it can be
// seen, however early. The terminal is afterwards as it was, also when ctx has ended.
func (s *secrets) ask(ctx context.Context, question string) (string, error) {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return "", err
	}
	secret, err := await(ctx, func() (string, error) { return s.screen.ReadPassword(question) })
	return secret, errors.Join(err, term.Restore(int(s.in.Fd()), before))
}

// maxSecret bounds what is read as a password, in bytes.
const maxSecret = 4 << 10

// ReadSecret reads a secret from In, for --password-stdin: all of it, without the
// newline at its end.
func (t *Terminal) ReadSecret() (string, error) {
	b, err := io.ReadAll(io.LimitReader(t.In, maxSecret+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxSecret {
		return "", errors.New("the password is too long")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
