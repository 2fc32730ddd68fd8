package attack

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

type trap struct {
	port  int
	calls atomic.Int64
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", ":0")
	check.OK(t, err)
	trap := &trap{port: l.Addr().(*net.TCPAddr).Port}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			trap.calls.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return trap
}

// inside returns spellings of internal addresses.
func inside() []string {
	return []string{
		"127.0.0.1", "127.1", "127.0.0.2", "0.0.0.0", "0", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "LOCALHOST", "localhost.", "x.localhost",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "169.254.169.254", "[fd00:ec2::254]",
		"metadata.google.internal", "10.0.0.1", "192.168.0.1", "kubernetes.default.svc", "127.0.0.1.nip.io",
	}
}

func TestImageSSRF(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "images from registries at internal and oddly written addresses",
		"422, or deployed by tag; the message reveals nothing; no connection")
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	trap := newTrap(t)
	n := 0
	for i, host := range inside() {
		n++
		image := fmt.Sprintf("%s:%d/x:v%d", host, trap.port, i)
		d, err := s.Client.Deploy(t.Context(), s.Project, s.Env, "hello", image)
		if err == nil && (d.Digest != "" || strings.Contains(string(d.Message), "127.") || strings.Contains(string(d.Message), "refused")) {
			t.Errorf("%s: digest %q, message %q", image, d.Digest, d.Message)
		}
		if i%4 != 0 {
			continue // the webhook accepts 60 calls a minute
		}
		n++
		if a := s.Post(url, []byte(`{"image":"`+image+`"}`), "X-Service-Token", token); a.Status != http.StatusAccepted && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s by webhook: got %d %s", image, a.Status, a.Body)
		}
	}
	if c := trap.calls.Load(); c != 0 {
		t.Errorf("got %d connections, want 0", c)
	}
	row.Measured(fmt.Sprintf("%d references, %d connections", n, trap.calls.Load()))
}

// TestGitSSRF checks Sluice's connections, but not those of Tekton.
func TestGitSSRF(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "git sources: `file://`, `ext::`, `-oProxyCommand`, options as branch, `$(…)`, credentials, internal addresses",
		"422, or accepted; Sluice connects to none")
	s := stacktest.New(t, world)
	s.App("hello")
	admin := adminToken(t)
	path := "/api/v1/projects/" + s.Project + "/environments/prod/apps/hello/git-source"
	bad := []wire.GitSource{
		{Repository: "file:///etc/passwd", Branch: "main"},
		{Repository: "/etc/passwd", Branch: "main"},
		{Repository: "../repo", Branch: "main"},
		{Repository: "ext::sh -c id", Branch: "main"},
		{Repository: "ext::sh", Branch: "main"},
		{Repository: "-oProxyCommand=id", Branch: "main"},
		{Repository: "ssh://-oProxyCommand=id/x", Branch: "main"},
		{Repository: "ssh://-oProxyCommand=id@host/x", Branch: "main"},
		{Repository: "git@-oProxyCommand=id:x", Branch: "main"},
		{Repository: "-git@host:x", Branch: "main"},
		{Repository: "--upload-pack=id", Branch: "main"},
		{Repository: "git://host/x", Branch: "main"},
		{Repository: "ftp://host/x", Branch: "main"},
		{Repository: "gopher://127.0.0.1:6379/_x", Branch: "main"},
		{Repository: "javascript:alert(1)//x", Branch: "main"},
		{Repository: "data:text/plain,x", Branch: "main"},
		{Repository: "https://user:password@host/x", Branch: "main"},
		{Repository: "https://token@host/x", Branch: "main"},
		{Repository: "https://host/x\nhttps://other/x", Branch: "main"},
		{Repository: "https://host/x y", Branch: "main"},
		{Repository: "https:///x", Branch: "main"},
		{Repository: "https://host", Branch: "main"},
		{Repository: "https://host/x?y", Branch: "main"},
		{Repository: "https://host/x#y", Branch: "main"},
		{Repository: "https://host/x", Branch: "--upload-pack=id"},
		{Repository: "https://host/x", Branch: "main\nx"},
		{Repository: "https://host/x", Branch: "a..b"},
		{Repository: "https://host/x", Branch: "a b"},
		{Repository: "https://host/x", Branch: ""},
		{Repository: "https://host/x", Branch: "main", Path: "../.."},
		{Repository: "https://host/x", Branch: "main", Path: "/etc"},
		{Repository: "https://host/x", Branch: "main", Path: "a/../../b"},
		{Repository: "https://host/x", Branch: "main", Path: "-rf"},
		{Repository: "https://host/x", Branch: "main", Path: "a\\..\\b"},
		{Repository: "https://host/$(params.token)", Branch: "main"},
		{Repository: "https://host/x", Branch: "$(params.token)"},
		{Repository: "https://host/x", Branch: "main`id`"},
		{Repository: "https://host/x", Branch: "main", Path: "$(context.pipelineRun.name)"},
		{Repository: "https://host/x;id", Branch: "main"},
		{Repository: "https://host/x", Branch: "main;id"},
		{Repository: "https://host/x", Branch: "main|id"},
		{Repository: "https://host/x", Branch: "main&&id"},
		{Repository: "https://host/'x", Branch: "main"},
		{Repository: "https://host/x", Branch: "ma\"in"},
		{Repository: "https://host/x", Branch: "main", Path: "a;id"},
	}
	for _, g := range bad {
		a := call(t, request{method: http.MethodPut, path: path, body: encode(t, g), token: admin})
		if a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%+v: got %d %s, want %d", g, a.Status, a.Body, http.StatusUnprocessableEntity)
		}
	}
	trap := newTrap(t)
	url, token := s.Webhook("hello")
	for i, host := range inside() {
		g := wire.GitSource{Repository: fmt.Sprintf("http://%s:%d/x.git", host, trap.port), Branch: "main"}
		if a := call(t, request{method: http.MethodPut, path: path, body: encode(t, g), token: admin}); a.Status == http.StatusOK && i%4 == 0 {
			s.Post(url, []byte(`{"commit":"abcdef1"}`), "X-Service-Token", token)
		}
	}
	if c := trap.calls.Load(); c != 0 {
		t.Errorf("got %d connections, want 0", c)
	}
	row.Measured(fmt.Sprintf("%d sources, %d connections", len(bad)+len(inside()), trap.calls.Load()))
}

// TestHostSSRF checks that Sluice uses an app's host only as a name at the ingress.
func TestHostSSRF(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "app hosts that are internal, belong to others, or break out of the route's rule",
		"422 or 409; the gate's proof is sent only through the ingress")
	s, other := stacktest.New(t, world), stacktest.New(t, world)
	taken := other.App("hello").Host
	admin := adminToken(t)
	path := "/api/v1/projects/" + s.Project + "/environments/prod/apps"
	hosts := append(inside(), taken, strings.ToUpper(taken), "x."+other.Project+"-prod.localhost", "x.hello."+other.Project+"-prod.localhost", other.Project+"-prod.localhost", "*.localhost", "*", "localhost:80", "a`) || Host(`b.example", "a.example`", "x.example/y",
		"x.example:443", "x.example.", ".x.example", "x..example", "-x.example", "xn--", "é.example", "x.example,y.example", "1.2.3.4", "1.2.3", "x.127", "x_y.example", "{host}", "x.example\r\nX: y", "")
	refused := 0
	for i, host := range hosts {
		a := call(t, request{method: http.MethodPost, path: path, token: admin, body: encode(t, map[string]string{"name": fmt.Sprintf("a%d", i), "image": stacktest.Image, "host": host})})
		switch {
		case a.Status == http.StatusUnprocessableEntity || a.Status == http.StatusConflict:
			refused++
		case a.Status == http.StatusCreated && plainName(host):
		default:
			t.Errorf("%q: %d %s", host, a.Status, a.Body)
		}
	}
	// The proof is requested only through the ingress, even if the host resolves to another
	// address.
	trap := newTrap(t)
	name, host := "meta", "metadata."+s.Project+".example"
	image := stacktest.Image
	if _, err := s.Client.CreateApp(t.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, Image: &image, Host: &host}); err != nil {
		t.Fatal(err)
	}
	s.Gate(name)
	if trap.calls.Load() != 0 {
		t.Error("got a connection, want none")
	}
	row.Measured(fmt.Sprintf("%d hosts, %d rejected", len(hosts), refused))
}

// plainName reports whether a host in the list is a valid name.
func plainName(host string) bool {
	switch host {
	case "x.localhost", "metadata.google.internal", "kubernetes.default.svc", "127.0.0.1.nip.io":
		return true
	}
	return false
}
