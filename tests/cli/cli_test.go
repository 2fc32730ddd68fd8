// Package cli uses the command line as a person does, over a whole stack of its own:
// deploys, webhooks, people and a key's life, by commands alone (promise C8).
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// portBase is the first of the stack's ports.
const portBase = 24280

var (
	world   *stack.Stack
	program string // the command line's
)

func TestMain(m *testing.M) {
	os.Exit(stacktest.Main(m, func(dir string, o *stack.Options) error {
		program = filepath.Join(dir, "sluice")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../scripts/sluice")
		build.Stderr = os.Stderr
		o.PortBase = portBase
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"deploys": {"PROGRESS_DEADLINE": "15s"}}
		return build.Run()
	}, func(s *stack.Stack) { world = s }))
}

// person works at a shell of their own, with a home of their own.
type person struct {
	t    *testing.T
	home string
	env  []string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	home := t.TempDir()
	return &person{t: t, home: home, env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}}
}

// result is what a command left.
type result struct {
	t        *testing.T
	exit     int
	out, err string
}

// run runs a program with some standard input.
func (p *person) run(stdin, name string, args ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = p.home, p.env, strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		p.t.Fatal(err)
	}
	return result{p.t, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// sluice runs a command, its words split at spaces.
func (p *person) sluice(command string) result {
	p.t.Helper()
	return p.run("", program, strings.Fields(command)...)
}

// does runs a command that has to succeed and gives what it printed.
func (p *person) does(command string) string {
	p.t.Helper()
	r := p.sluice(command)
	if r.exit != 0 {
		p.t.Fatalf("sluice %s: exit %d\n%s%s", command, r.exit, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// fails runs a command that has to fail with a status and a code.
func (p *person) fails(exit int, code, command string) {
	p.t.Helper()
	r := p.sluice(command)
	if r.exit != exit || r.out != "" || !strings.HasSuffix(r.err, "("+code+")\n") {
		p.t.Fatalf("sluice %s: exit %d, want %d (%s)\n%s%s", command, r.exit, exit, code, r.out, r.err)
	}
}

// reads runs a command with -o json and reads its answer into v.
func (p *person) reads(v any, command string) {
	p.t.Helper()
	out := p.does(command + " -o json")
	if err := json.Unmarshal([]byte(out), v); err != nil {
		p.t.Fatalf("sluice %s: %v\n%s", command, err, out)
	}
}

// signsIn as a user of the stack.
func (p *person) signsIn(username, password string) {
	p.t.Helper()
	r := p.run(password+"\n", program, "login", world.Info().BaseURL, "--username", username, "--password-stdin")
	if r.exit != 0 {
		p.t.Fatalf("sign in as %s: %s", username, r.err)
	}
}

func admin(t *testing.T) *person {
	t.Helper()
	p := newPerson(t)
	p.signsIn(world.Info().Admin.Username, world.Info().Admin.Password)
	return p
}

// calls an app through the ingress until the answer is as wanted, and gives the image
// that answered.
func (p *person) calls(app, key string, want int) string {
	p.t.Helper()
	var a struct{ URL string }
	p.reads(&a, "app show "+app)
	client := stacktest.Ingress(world)
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		status, image, err := call(p.t.Context(), client, a.URL, key)
		if err == nil && status == want {
			return image
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s answers %d (%v), want %d", app, status, err, want)
		}
		<-tick.C
	}
}

func call(ctx context.Context, client *http.Client, url, key string) (status int, image string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	var echo stacktest.Echo
	err = json.NewDecoder(res.Body).Decode(&echo)
	return res.StatusCode, echo.Image, err
}
