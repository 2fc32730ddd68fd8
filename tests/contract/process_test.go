package contract

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

const (
	limit = 60 * time.Second // usually some milliseconds
	uid   = 65532            // the images' user
)

type process struct {
	cmd     *exec.Cmd
	client  *http.Client
	url     string
	started time.Time     // just before exec
	serving chan struct{} // closed when it serves or has ended
	ended   chan struct{}
	err     error

	mu   sync.Mutex
	logs bytes.Buffer
}

// launch starts a function with only these environment variables.
func launch(t *testing.T, function string, settings map[string]string) *process {
	t.Helper()
	img := shipped[function]
	env := map[string]string{}
	for _, s := range img.config.Env {
		key, value, _ := strings.Cut(s, "=")
		env[key] = value
	}
	maps.Copy(env, settings)
	program := img.config.Entrypoint[0]
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, img.config.Cmd...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Chroot = img.root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	} else {
		cmd.Path = filepath.Join(img.root, program)
		env = img.outside(env)
	}
	cmd.Env = variables(env)
	p := follow(t, cmd)
	p.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(t), MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	return p
}

// outside returns settings with paths outside the image's root directory.
func (i *image) outside(env map[string]string) map[string]string {
	out := maps.Clone(env)
	for key, value := range env {
		if strings.HasPrefix(value, "/") && key != "PATH" {
			out[key] = filepath.Join(i.root, value)
		}
	}
	return out
}

func variables(env map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if env[key] != "" {
			all = append(all, key+"="+env[key])
		}
	}
	return all
}

func follow(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, serving: make(chan struct{}), ended: make(chan struct{})}
	p.client = &http.Client{Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	out, in, err := os.Pipe()
	check.OK(t, err)
	cmd.Stdout, cmd.Stderr = in, in
	p.started = time.Now()
	check.OK(t, cmd.Start())
	_ = in.Close()
	go p.read(out)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		p.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("%s: %v\n%s", filepath.Base(cmd.Path), p.err, p.log())
		}
	})
	return p
}

func (p *process) read(out *os.File) {
	defer close(p.ended)
	announced := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.logs.Write(lines.Bytes())
		p.logs.WriteByte('\n')
		p.mu.Unlock()
		if !announced && bytes.Contains(lines.Bytes(), []byte(`"msg":"serving"`)) {
			var line struct {
				Address string `json:"address"`
				TLS     bool   `json:"tls"`
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				p.url = map[bool]string{false: "http://", true: "https://"}[line.TLS] + line.Address
				announced = true
				close(p.serving)
			}
		}
	}
	_ = out.Close()
	p.err = p.cmd.Wait()
	if !announced {
		close(p.serving)
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

func (p *process) ready(t *testing.T) *process {
	t.Helper()
	select {
	case <-p.serving:
	case <-time.After(limit):
		t.Fatalf("process does not serve; log:\n%s", p.log())
	}
	if p.url == "" {
		t.Fatalf("ended before it served: %v\n%s", p.err, p.log())
	}
	return p
}

func (p *process) end(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		t.Fatalf("process does not end; log:\n%s", p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

type call struct {
	method, path string
	header       map[string]string
	body         string
}

func (p *process) do(t *testing.T, c call) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, p.url+c.path, strings.NewReader(c.body))
	check.OK(t, err)
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	check.OK(t, err)
	return res.StatusCode, string(text)
}

// pool returns the CA of the checker's certificate.
func pool(t *testing.T) *x509.CertPool {
	t.Helper()
	all := x509.NewCertPool()
	all.AppendCertsFromPEM(serverCertificate(t).certificate)
	return all
}
