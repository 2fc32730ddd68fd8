// Package terminal provides the three standard streams and their properties.
//
// Colors, spinners, width limits and prompts are used only for streams that are terminals.
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

// Terminal holds the streams of a command.
type Terminal struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // errors, progress, warnings and prompts

	Interactive bool // In and Err are terminals: prompts are possible
	Attended    bool // In is a terminal
	OutColour   bool // Out is a terminal with colors
	ErrLive     bool // Err is a terminal whose last line can be overwritten
	Width       int  // of Out in columns; 0 means no limit

	secret func(ctx context.Context, question string) (string, error)
	lines  *bufio.Reader // reads In after the first prompt
}

const narrowest = 20

// Of returns the terminal of three files, usually the standard streams. It honors NO_COLOR, TERM and
// COLUMNS.
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

func width(fd int, columns string) int {
	if n, err := strconv.Atoi(columns); err == nil && n > 0 {
		return max(n, narrowest)
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return max(w, narrowest)
	}
	return 80
}

// ErrNobody is the error of a prompt if the terminal is not interactive.
var ErrNobody = errors.New("no terminal")

// Ask shows a prompt and reads a line. It removes surrounding space. It can return ErrNobody.
func (t *Terminal) Ask(ctx context.Context, question string) (string, error) {
	if !t.Interactive {
		return "", ErrNobody
	}
	if _, err := io.WriteString(t.Err, question); err != nil {
		return "", err
	}
	return await(ctx, t.line)
}

// AskPassword prompts for a secret without echo. It returns io.EOF on Ctrl-C and Ctrl-D, and can
// return ErrNobody.
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

// await returns the result of read, or an error when ctx ends. The read itself cannot be canceled.
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

// Look contains the properties of a fake terminal.
type Look struct {
	Interactive bool // passwords are read as a line of the input
	Attended    bool // In is a terminal, but Err is not
	Colour      bool
	Live        bool
	Width       int
}

// Fake returns a terminal with any streams, for tests.
func Fake(in io.Reader, out, err io.Writer, l Look) *Terminal {
	t := &Terminal{
		In: in, Out: out, Err: err,
		Interactive: l.Interactive, Attended: l.Interactive || l.Attended, OutColour: l.Colour, ErrLive: l.Live, Width: l.Width,
	}
	t.secret = func(_ context.Context, question string) (string, error) {
		if _, err := io.WriteString(t.Err, question); err != nil {
			return "", err
		}
		defer func() { _, _ = io.WriteString(t.Err, "\n") }()
		return t.line()
	}
	return t
}

type secrets struct {
	in     *os.File
	screen *term.Terminal // shared by all prompts, because it can read ahead
}

type conversation struct {
	io.Reader
	io.Writer
}

// ask turns echo off before it shows the prompt, so that even early input is not shown.
func (s *secrets) ask(ctx context.Context, question string) (string, error) {
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return "", err
	}
	secret, err := await(ctx, func() (string, error) { return s.screen.ReadPassword(question) })
	return secret, errors.Join(err, term.Restore(int(s.in.Fd()), before))
}

// maxSecret is the maximum length of a secret from standard input, in bytes.
const maxSecret = 4 << 10

// ReadSecret reads all of In, without the newline at its end, as a secret.
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
