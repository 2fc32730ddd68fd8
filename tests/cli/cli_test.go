// Package cli tests the command line against a whole stack: keys, deployments, webhooks, users and
// service tokens (promise C8).
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

const portBase = 24280

var (
	world   *stack.Stack
	program string
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

type result struct {
	t        *testing.T
	exit     int
	out, err string
}

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

func (p *person) sluice(command string) result {
	p.t.Helper()
	return p.run("", program, strings.Fields(command)...)
}

// does runs a command that must succeed, and returns its output.
func (p *person) does(command string) string {
	p.t.Helper()
	r := p.sluice(command)
	if r.exit != 0 {
		p.t.Fatalf("sluice %s: exit %d\n%s%s", command, r.exit, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// fails runs a command that must fail with a status and a code.
func (p *person) fails(exit int, code, command string) {
	p.t.Helper()
	r := p.sluice(command)
	if r.exit != exit || r.out != "" || !strings.HasSuffix(r.err, "("+code+")\n") {
		p.t.Fatalf("sluice %s: exit %d, want %d (%s)\n%s%s", command, r.exit, exit, code, r.out, r.err)
	}
}

func (p *person) reads(v any, command string) {
	p.t.Helper()
	out := p.does(command + " -o json")
	if err := json.Unmarshal([]byte(out), v); err != nil {
		p.t.Fatalf("sluice %s: %v\n%s", command, err, out)
	}
}

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

// calls calls an app through the ingress until the response has the status want. It returns the
// image that served the response.
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
			p.t.Fatalf("status of %s: got %d (%v), want %d", app, status, err, want)
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
