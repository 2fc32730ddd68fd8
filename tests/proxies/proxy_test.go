package proxies

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const shipped = "../../infra/proxies"

// proxy is a program with its shipped files.
type proxy struct {
	name  string
	files []string // below infra/proxies/{name}
	port  int
	from  string // directory with the files of all proxies; infra/proxies if empty
	app   string // the app's address; its Service's if empty
	alone bool   // returns the gate's 503 even without the stand-in

	checkers string // their address; the stack's if empty
	refuse   bool   // denies preflights without a key
	trailers bool   // may pass on a client's trailers
	repeats  bool   // repeats a check if the TLS handshake failed

	// command returns the command line for files in dir.
	command func(t *testing.T, dir string, port int) (program string, args []string)
}

func proxies() []proxy {
	return []proxy{
		{name: "traefik", files: []string{"dynamic.yaml"}, port: 22180, command: traefik},
		{name: "nginx", files: []string{"gate.conf"}, port: 22181, alone: true, repeats: true, command: nginx},
		{name: "caddy", files: []string{"Caddyfile"}, port: 22182, alone: true, command: func(_ *testing.T, dir string, _ int) (string, []string) {
			return "caddy", []string{"run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile"}
		}},
		{name: "haproxy", files: []string{"haproxy.cfg", "gate.lua"}, port: 22183, alone: true, trailers: true, repeats: true, command: func(_ *testing.T, dir string, _ int) (string, []string) {
			return "haproxy", []string{"-db", "-f", filepath.Join(dir, "haproxy.cfg")}
		}},
	}
}

func traefik(t *testing.T, dir string, port int) (string, []string) {
	t.Helper()
	program, args := stackTraefik(t, port)
	return program, append(args, "--providers.file.filename="+filepath.Join(dir, "dynamic.yaml"))
}

// stackTraefik returns the stack's program with the entry point "websecure".
func stackTraefik(t *testing.T, port int) (program string, args []string) {
	t.Helper()
	program, err := os.Readlink("/proc/" + strconv.Itoa(world.Info().PIDs["traefik"]) + "/exe")
	check.OK(t, err)
	return program, []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--entrypoints.websecure.address=127.0.0.1:" + strconv.Itoa(port),
	}
}

// nginx writes a minimal configuration. The workers run as the test's user, who can write bodies
// to dir.
func nginx(t *testing.T, dir string, _ int) (string, []string) {
	t.Helper()
	own, err := user.Current()
	check.OK(t, err)
	conf := "daemon off; master_process on; worker_processes 2; user " + own.Username + "; pid " + dir + "/nginx.pid; error_log stderr;\n" +
		"events {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	write(t, filepath.Join(dir, "nginx.conf"), conf+"include "+dir+"/gate.conf;\n}\n")
	return "nginx", []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf")}
}

type address struct{ from, to string }

// place writes a proxy's files with this machine's addresses. Each example address must occur.
func (p proxy) place(t *testing.T, dir string, addresses []address) {
	t.Helper()
	texts := map[string]string{}
	for _, f := range p.files {
		b, err := os.ReadFile(filepath.Join(cmp.Or(p.from, shipped), p.name, f))
		check.OK(t, err)
		texts[f] = string(b)
	}
	if p.refuse {
		p.refusePreflights(t, texts)
	}
	for _, a := range addresses {
		found := false
		for f, text := range texts {
			found = found || strings.Contains(text, a.from)
			texts[f] = strings.ReplaceAll(text, a.from, a.to)
		}
		if !found {
			t.Fatalf("no file of %v contains %s", p.files, a.from)
		}
	}
	for f, text := range texts {
		write(t, filepath.Join(dir, f), text)
	}
}

// refusing marks the line that allows preflights without a key.
const refusing = "# delete this line to refuse preflights without a key\n"

func (p proxy) refusePreflights(t *testing.T, texts map[string]string) {
	t.Helper()
	marked := 0
	for f, text := range texts {
		marked += strings.Count(text, refusing)
		if before, after, ok := strings.Cut(text, refusing); ok {
			texts[f] = before[:strings.LastIndexByte(before, '\n')+1] + after
		}
	}
	if marked != 1 {
		t.Fatalf("marked lines: got %d in %v, want 1", marked, p.files)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	check.OK(t, os.WriteFile(file, []byte(text), 0o600))
}

// start runs the proxy until the test ends.
func (p proxy) start(t *testing.T, s *stacktest.Site, app string) *gated {
	t.Helper()
	return p.trusting(t, s, app, world.Info().CheckerCA, http.StatusUnauthorized)
}

// trusting is start with another CA and another expected status.
func (p proxy) trusting(t *testing.T, s *stacktest.Site, app, authority string, status int) *gated {
	t.Helper()
	dir := t.TempDir()
	pool := certify(t, dir)
	checkers := cmp.Or(p.checkers, strings.TrimPrefix(world.Info().CheckerURL, "https://"))
	if p.app == "" {
		p.app = backendOf(t, s, app)
	}
	p.place(t, dir, p.addresses(dir, checkers, authority, s.Project+"-"+s.Env, app))
	program, args := p.command(t, dir, p.port)
	return p.run(t, s, dir, pool, status, program, args...)
}

// run runs a program until the test ends, and waits until it responds with status.
func (p proxy) run(t *testing.T, s *stacktest.Site, dir string, pool *x509.CertPool, status int, program string, args ...string) *gated {
	t.Helper()
	if found, err := exec.LookPath(filepath.Join("/usr/sbin", program)); err == nil {
		program = found // Debian installs servers there
	}
	log, err := os.Create(filepath.Join(world.Info().LogsDir, "proxy-"+p.name+"-"+strconv.Itoa(p.port)+".log"))
	check.OK(t, err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+world.Info().Kubeconfig)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel kills the proxy when its parent thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("%v (scripts/prerequisites.sh --race installs it)", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		_ = log.Close()
	})
	g := newGated(t, p, s, pool)
	g.listens(ended, log.Name(), status)
	return g
}

// addresses returns the replacements of example addresses, longer ones first.
func (p proxy) addresses(dir, checkers, authority, namespace, app string) []address {
	port := strconv.Itoa(p.port)
	all := []address{
		{"sluice-checker.sluice-system.svc:8443", checkers},
		{"hello.shop-prod.svc:80", p.app},
		{"/etc/sluice/ca.crt", authority},
	}
	switch p.name {
	case "haproxy":
		return append(all, address{"shop-prod hello", namespace + " " + app}, address{"bind :8443", "bind 127.0.0.1:" + port},
			address{"/etc/sluice", dir}, address{"abns@sluice-checkers", "abns@sluice-checkers-" + port})
	case "nginx":
		all = append(all, address{"listen 8443", "listen 127.0.0.1:" + port})
	case "caddy":
		all = append(all, address{"hello.example.com:8443", "hello.example.com:" + port})
	}
	return append(all, address{"/check/shop-prod/hello", "/check/" + namespace + "/" + app}, address{"/etc/sluice", dir})
}

func backendOf(t *testing.T, s *stacktest.Site, app string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", world.Info().Kubeconfig)
	check.OK(t, err)
	api, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	service, err := api.CoreV1().Services(s.Project+"-"+s.Env).Get(t.Context(), app, metav1.GetOptions{})
	check.OK(t, err)
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port)))
}

func (g *gated) listens(ended <-chan error, log string, status int) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url("/"), nil)
		check.OK(g.t, err)
		res, err := g.clients["HTTP/1.1"].Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == status {
				return
			}
			err = errors.New(res.Status)
		}
		select {
		case <-ended:
			text, readErr := os.ReadFile(log)
			g.t.Fatalf("%s ended: %s %v", g.proxy.name, text, readErr)
		case <-ctx.Done():
			g.t.Fatalf("%s does not respond: %v", g.proxy.name, err)
		case <-tick.C:
		}
	}
}
