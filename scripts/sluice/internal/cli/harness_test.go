package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/scripts/sluice/internal/contexts"
	"github.com/sluicegate/sluice/scripts/sluice/internal/terminal"
	"github.com/sluicegate/sluice/tests/check"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// TestMain hides the idle connections of the default transport. Otherwise a test server that closes
// also closes the connections of parallel tests.
func TestMain(m *testing.M) {
	http.DefaultTransport = struct{ http.RoundTripper }{http.DefaultTransport}
	os.Exit(m.Run())
}

type answer struct {
	status int
	body   string
}

// fake is a fake server. Requests to "METHOD /path" get the answers in order; the last repeats.
type fake struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string][]answer
	all     *answer
	log     []string
	tokens  []string
	headers []http.Header
	request string // X-Request-Id of the answers; "" sends none
}

func newFake(t *testing.T, answers map[string][]answer) *fake {
	t.Helper()
	f := &fake{answers: map[string][]answer{}}
	for request, a := range answers {
		f.answers[request] = append([]answer(nil), a...)
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	request := r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/api/v1")
	f.log = append(f.log, strings.TrimSpace(request+" "+string(body)))
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	f.headers = append(f.headers, r.Header.Clone())
	queue := f.answers[request]
	a := answer{http.StatusTeapot, `{"code":"unexpected","message":"The test has no answer to ` + request + `."}`}
	switch {
	case f.all != nil:
		a = *f.all
	case len(queue) > 0:
		a = queue[0]
		if len(queue) > 1 {
			f.answers[request] = queue[1:]
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if f.request != "" {
		w.Header().Set("X-Request-Id", f.request)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.body))
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.log...)
}

type person struct {
	t        *testing.T
	home     string
	variable map[string]string
	stdin    string
	terminal bool // standard input and error are a terminal
	unseen   bool // only standard input is a terminal
	colour   bool
	width    int
	tries    int
	opened   []string
	noOpener bool
}

// newPerson returns a user who is signed in at url, in shop/prod, unless url is "".
func newPerson(t *testing.T, url string) *person {
	t.Helper()
	p := &person{t: t, home: t.TempDir(), variable: map[string]string{}, tries: 1}
	if url == "" {
		return p
	}
	dir := p.dir()
	p.must(dir.Put(contexts.Context{
		Name: "test", URL: url, Project: "shop", Environment: "prod",
		Username: "ada", Token: "the-token", ExpiresAt: now.Add(time.Hour),
	}))
	p.must(dir.Use("test"))
	return p
}

func (p *person) dir() contexts.Dir { return contexts.Dir(filepath.Join(p.home, "sluice")) }

func (p *person) must(err error) {
	p.t.Helper()
	check.OK(p.t, err)
}

func (p *person) getenv(name string) string {
	if name == "XDG_CONFIG_HOME" {
		return p.home
	}
	return p.variable[name]
}

type result struct {
	exit     int
	out, err string
}

func (p *person) runs(args ...string) result {
	p.t.Helper()
	return p.runsIn(p.t.Context(), args...)
}

func (p *person) runsIn(ctx context.Context, args ...string) result {
	p.t.Helper()
	var out, err bytes.Buffer
	term := terminal.Fake(strings.NewReader(p.stdin), &out, &err, terminal.Look{
		Interactive: p.terminal, Attended: p.unseen, Colour: p.colour, Live: p.colour, Width: p.width,
	})
	exit := Main(ctx, Env{
		Terminal: term, Getenv: p.getenv, Now: func() time.Time { return now }, Tries: p.tries, Poll: time.Millisecond,
		Build:  Build{Version: "v1.2.3", Commit: "c0ffee", Go: "go1.26"},
		Browse: p.browse,
	}, args)
	return result{exit, out.String(), err.String()}
}

func (p *person) browse(_ context.Context, program, address string) error {
	if p.noOpener {
		return exec.ErrNotFound
	}
	p.opened = append(p.opened, program+" "+address)
	return nil
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.OK(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	check.OK(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit %d\n", r.exit)
	section(&b, "stdout", r.out)
	section(&b, "stderr", r.err)
	return b.String()
}

func section(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "%s:\n", name)
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteString("\n")
	}
}
