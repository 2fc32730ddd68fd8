package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sluicegate/sluice/tests/check"
)

// screen is the user's side of a pseudoterminal.
type screen struct {
	master *os.File
	tty    *os.File

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
}

func open(t *testing.T, columns uint16) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudoterminals: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24})
	}
	check.OK(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check.OK(t, err)
	s := &screen{master: master, tty: tty, more: make(chan struct{}, 1000)}
	var reader sync.WaitGroup
	reader.Go(s.watch)
	t.Cleanup(func() { _ = tty.Close(); reader.Wait(); _ = master.Close() })
	return s
}

func (s *screen) watch() {
	b := make([]byte, 256)
	for {
		n, err := s.master.Read(b)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen.Write(b[:n])
		s.mu.Unlock()
		s.more <- struct{}{}
	}
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(s.text(), text) {
		select {
		case <-s.more:
		case <-t.Context().Done():
			t.Fatalf("screen: got %q, want %q", s.text(), text)
		}
	}
}

func (s *screen) typed(t *testing.T, text string) {
	t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTerminalProperties(t *testing.T) {
	t.Parallel()
	s := open(t, 60)
	pipe, err := os.CreateTemp(t.TempDir(), "")
	check.OK(t, err)
	defer func() { _ = pipe.Close() }()
	type known struct {
		Interactive, Attended, OutColour, ErrLive bool
		Width                                     int
	}
	tests := []struct {
		name         string
		in, out, err *os.File
		env          func(string) string
		want         known
	}{
		{"a terminal", s.tty, s.tty, s.tty, env(), known{true, true, true, true, 60}},
		{"NO_COLOR", s.tty, s.tty, s.tty, env("NO_COLOR", "1"), known{true, true, false, true, 60}},
		{"empty NO_COLOR", s.tty, s.tty, s.tty, env("NO_COLOR", ""), known{true, true, true, true, 60}},
		{"dumb terminal", s.tty, s.tty, s.tty, env("TERM", "dumb"), known{true, true, false, false, 60}},
		{"COLUMNS", s.tty, s.tty, s.tty, env("COLUMNS", "100"), known{true, true, true, true, 100}},
		{"invalid COLUMNS", s.tty, s.tty, s.tty, env("COLUMNS", "-1"), known{true, true, true, true, 60}},
		{"output to a pipe", s.tty, pipe, s.tty, env("COLUMNS", "100"), known{true, true, false, true, 0}},
		{"input from a pipe", pipe, s.tty, s.tty, env(), known{false, false, true, true, 60}},
		{"errors to a pipe", s.tty, s.tty, pipe, env(), known{false, true, true, false, 60}},
		{"no terminal", pipe, pipe, pipe, env(), known{false, false, false, false, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Of(tt.in, tt.out, tt.err, tt.env)
			if k := (known{got.Interactive, got.Attended, got.OutColour, got.ErrLive, got.Width}); k != tt.want {
				t.Errorf("got %+v, want %+v", k, tt.want)
			}
		})
	}
}

func TestPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	s := open(t, 80)
	term := Of(s.tty, s.tty, s.tty, env())
	var typing sync.WaitGroup
	typing.Go(func() {
		s.await(t, "Password: ")
		s.typed(t, "open sesame\n")
		s.await(t, "Sure? ")
		s.typed(t, " yes \n")
	})
	secret, err := term.AskPassword(t.Context(), "Password: ")
	if err != nil || secret != "open sesame" {
		t.Errorf("got password %q, %v", secret, err)
	}
	answer, err := term.Ask(t.Context(), "Sure? ")
	if err != nil || answer != "yes" {
		t.Errorf("got answer %q, %v", answer, err)
	}
	typing.Wait()
	s.await(t, "yes")
	if strings.Contains(s.text(), "sesame") {
		t.Errorf("the screen shows the password: %q", s.text())
	}
}

// ending is a file that reports the end of a read.
type ending struct {
	in   *os.File
	once chan struct{}
}

func (e ending) Read(b []byte) (int, error) {
	defer close(e.once)
	return e.in.Read(b)
}

func TestInterruptedPromptRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	s := open(t, 80)
	terminal := Of(s.tty, s.tty, s.tty, env())
	left := make(chan struct{}) // closed when the abandoned read ends
	quiet := &secrets{in: s.tty, screen: term.NewTerminal(conversation{ending{s.tty, left}, s.tty}, "")}
	terminal.secret = quiet.ask
	state := func() term.State {
		now, err := term.GetState(int(s.master.Fd()))
		if err != nil {
			t.Error(err)
			return term.State{}
		}
		return *now
	}
	before := state()
	ctx, cancel := context.WithCancel(t.Context())
	var interrupt sync.WaitGroup
	interrupt.Go(func() { s.await(t, "Password: "); cancel() })
	if _, err := terminal.AskPassword(ctx, "Password: "); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	interrupt.Wait()
	if state() != before {
		t.Error("the terminal is not restored")
	}
	s.typed(t, "\n")
	<-left
}

func TestControlCEndsAPasswordPrompt(t *testing.T) {
	t.Parallel()
	s := open(t, 80)
	var typing sync.WaitGroup
	typing.Go(func() { s.await(t, "Password: "); s.typed(t, "half\x03") })
	if secret, err := Of(s.tty, s.tty, s.tty, env()).AskPassword(t.Context(), "Password: "); secret != "" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v, want EOF", secret, err)
	}
	typing.Wait()
}

func TestPromptWithoutTerminal(t *testing.T) {
	t.Parallel()
	term := Fake(strings.NewReader("y\n"), &bytes.Buffer{}, &bytes.Buffer{}, Look{})
	if _, err := term.Ask(t.Context(), "?"); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want ErrNobody", err)
	}
	if _, err := term.AskPassword(t.Context(), "?"); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want ErrNobody", err)
	}
}

func TestReadSecret(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
		ok             bool
	}{
		{"a line", "open sesame\n", "open sesame", true},
		{"Windows line ending", "open sesame\r\n", "open sesame", true},
		{"no newline", "open sesame", "open sesame", true},
		{"spaces", "  x ", "  x ", true},
		{"longest", strings.Repeat("x", maxSecret), strings.Repeat("x", maxSecret), true},
		{"too long", strings.Repeat("x", maxSecret+1), "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Fake(strings.NewReader(tt.in), nil, nil, Look{}).ReadSecret()
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
