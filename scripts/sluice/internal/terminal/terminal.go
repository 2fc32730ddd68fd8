// Package terminal is the place the command line talks to: its three streams, and
// what is known about the person at the other end.
//
// A stream that is no terminal gets neither colours nor spinners, and tables of any
// width; nobody is asked anything there.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Terminal is where a command runs.
type Terminal struct {
	In  io.Reader
	Out io.Writer // what was asked for
	Err io.Writer // errors, progress, warnings, questions

	Interactive bool // a person can be asked: input and errors are on a terminal
	Attended    bool // a person is there, who may not see what is asked: input is a terminal
	OutColour   bool // Out is a terminal that takes colours
	ErrLive     bool // Err is a terminal whose last line can be written over
	Width       int  // of Out in columns; 0 is no limit

	secret func(ctx context.Context, question string) (string, error)
	lines  *bufio.Reader // of In, once something was asked
}

// narrowest is the smallest width that tables are fitted to.
const narrowest = 20

// Of is the terminal of three files, e.g. the process's own. getenv gives NO_COLOR,
// TERM and COLUMNS.
func Of(in, out, err *os.File, getenv func(string) string) *Terminal {
	inTTY, outTTY, errTTY := term.IsTerminal(int(in.Fd())), term.IsTerminal(int(out.Fd())), term.IsTerminal(int(err.Fd()))
	capable := getenv("TERM") != "dumb"
	t := &Terminal{
		In: in, Out: out, Err: err,
		Interactive: inTTY && errTTY, Attended: inTTY,
		OutColour: outTTY && capable && getenv("NO_COLOR") == "",
		ErrLive:   errTTY && capable,
		secret:    (&secrets{in: in, screen: term.NewTerminal(conversation{in, err}, "")}).ask,
	}
	if outTTY {
		t.Width = width(int(out.Fd()), getenv("COLUMNS"))
	}
	return t
}

// width is what COLUMNS says, or the terminal itself.
func width(fd int, columns string) int {
	if n, err := strconv.Atoi(columns); err == nil && n > 0 {
		return max(n, narrowest)
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return max(w, narrowest)
	}
	return 80
}

// ErrNobody is the answer to a question where nobody can be asked.
var ErrNobody = errors.New("no terminal")

// Ask asks a question and reads a line, without the space around it.
func (t *Terminal) Ask(ctx context.Context, question string) (string, error) {
	if !t.Interactive {
		return "", ErrNobody
	}
	if _, err := io.WriteString(t.Err, question); err != nil {
		return "", err
	}
	return await(ctx, t.line)
}

// AskPassword asks for a secret, which is not shown while it is typed. io.EOF is a
// Ctrl-C or Ctrl-D in place of it.
func (t *Terminal) AskPassword(ctx context.Context, question string) (string, error) {
	if !t.Interactive {
		return "", ErrNobody
	}
	return t.secret(ctx, question)
}

func (t *Terminal) line() (string, error) {
	if t.lines == nil {
		t.lines = bufio.NewReader(t.In)
	}
	line, err := t.lines.ReadString('\n')
	if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// await reads, unless ctx ends first. A read of a terminal cannot be cancelled: it
// is then left to the end of the process, which is near.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Look is what a made-up terminal can do.
type Look struct {
	Interactive bool // passwords are then read as a line of the input
	Attended    bool // as if interactive, but with questions out of sight
	Colour      bool
	Live        bool
	Width       int
}

// Fake is a terminal made of any streams, for tests.
func Fake(in io.Reader, out, err io.Writer, l Look) *Terminal {
	t := &Terminal{
		In: in, Out: out, Err: err,
		Interactive: l.Interactive, Attended: l.Interactive || l.Attended, OutColour: l.Colour, ErrLive: l.Live, Width: l.Width,
	}
	t.secret = func(_ context.Context, question string) (string, error) {
		if _, err := io.WriteString(t.Err, question); err != nil {
			return "", err
		}
		defer func() { _, _ = io.WriteString(t.Err, "\n") }() // the typed one was not shown
		return t.line()
	}
	return t
}

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
		return "", fmt.Errorf("standard input has more than %d bytes", maxSecret)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
