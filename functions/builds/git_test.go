package builds

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

type origin struct {
	testing.TB
	dir     string // bare
	url     string
	ids     map[string]string // of objects, by name
	lost    atomic.Int64      // number of the request that gets 503; 0 for none, -1 for all
	asked   atomic.Int64
	account string // "name:password", or ""
}

type server struct {
	name   string
	v2     bool   // otherwise version 0
	anyID  bool   // serves any object by ID
	format string // of hashes
}

func servers() []server {
	return []server{
		{name: "version 2", v2: true, anyID: true, format: "sha1"},
		{name: "version 0", format: "sha1"},
		{name: "version 2, SHA-256", v2: true, anyID: true, format: "sha256"},
		{name: "version 0, any object", anyID: true, format: "sha1"},
		{name: "version 0, SHA-256", format: "sha256"},
	}
}

// newOrigin serves a repository with many misleading names.
func newOrigin(t testing.TB, s server) *origin {
	t.Helper()
	o := &origin{TB: t, dir: filepath.Join(t.TempDir(), "hello.git"), ids: map[string]string{}}
	o.git("init", "--quiet", "--bare", "--object-format="+s.format, o.dir)
	o.git("config", "uploadpack.allowAnySHA1InWant", fmt.Sprint(s.anyID))
	o.fill()
	backend := filepath.Join(strings.TrimSpace(o.git("--exec-path")), "git-http-backend")
	handler := &cgi.Handler{
		Path: backend, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir()},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost := o.lost.Load(); o.asked.Add(1) == lost || lost < 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if name, password, _ := r.BasicAuth(); o.account != "" && name+":"+password != o.account {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !s.v2 {
			r.Header.Del("Git-Protocol")
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	o.url = web.URL + "/hello.git"
	return o
}

// fill creates the branch main with the commits first, second and third. Everything else has
// "evil" in its file.
func (o *origin) fill() {
	o.Helper()
	o.branch("main", "first", "second", "third")
	for _, name := range []string{"aaa", "a/main", "a/refs/heads/main", "refs/heads/gone", "HEAD"} {
		o.branch(name, "evil old "+name, "evil "+name)
	}
	evil := o.ids["evil aaa"]
	o.git("update-ref", "refs/tags/main", evil)
	o.git("update-ref", "refs/tags/gone", evil)
	o.git("update-ref", "refs/main", evil)
	// Branches and tags with names of commits.
	for _, name := range []string{o.ids["first"], o.ids["first"][:12], o.ids["third"], strings.Repeat("0", len(evil))} {
		o.git("update-ref", "refs/heads/"+name, evil)
		o.git("update-ref", "refs/tags/"+name, evil)
	}
	o.git("symbolic-ref", "HEAD", "refs/heads/aaa")
	o.git("tag", "--annotate", "--message=v1", "v1", o.ids["second"])
	o.ids["tag v1"] = strings.TrimSpace(o.git("rev-parse", "v1"))
	o.ids["tree"] = strings.TrimSpace(o.git("rev-parse", o.ids["second"]+"^{tree}"))
	// A commit that was replaced by a force push.
	o.branch("forced", "forced away")
	o.git("update-ref", "-d", "refs/heads/forced")
	o.ids["two alike"] = o.alike("long")
}

func (o *origin) branch(name string, commits ...string) {
	o.Helper()
	var in strings.Builder
	for i, c := range commits {
		fmt.Fprintf(&in, "commit refs/heads/%s\nmark :%d\ncommitter A <a@example.com> %d +0000\ndata %d\n%s\n", name, i+1, 1_700_000_000+i, len(c), c)
		if i > 0 {
			fmt.Fprintf(&in, "from :%d\n", i)
		}
		for path, content := range map[string]string{
			"who": c, "services/api/Dockerfile": "FROM scratch\n",
			".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c 'touch%20pwned'\n",
		} {
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
		}
		for path, target := range map[string]string{"inside": "services/api", "outside": "../..", "root": "/"} {
			fmt.Fprintf(&in, "M 120000 inline %s\ndata %d\n%s\n", path, len(target), target)
		}
	}
	o.feed(in.String(), "fast-import", "--quiet", "--force")
	lines := strings.Fields(o.git("rev-list", "--reverse", "refs/heads/"+name, "--"))
	for i, c := range commits {
		o.ids[c] = lines[i]
	}
}

// alike creates a branch with two commits whose hashes share a prefix, and returns the prefix.
func (o *origin) alike(name string) string {
	o.Helper()
	commits := make([]string, 1000)
	for i := range commits {
		commits[i] = fmt.Sprintf("evil %s %d", name, i)
	}
	o.branch(name, commits...)
	seen := map[string]bool{}
	for _, c := range commits {
		begin := o.ids[c][:4]
		if seen[begin] {
			return begin
		}
		seen[begin] = true
	}
	o.Fatal("no two commits share a prefix")
	return ""
}

func (o *origin) git(args ...string) string { o.Helper(); return o.feed("", args...) }

func (o *origin) feed(in string, args ...string) string {
	o.Helper()
	cmd := exec.CommandContext(o.Context(), "git", args...)
	if _, err := os.Stat(o.dir); err == nil {
		cmd.Dir = o.dir
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		o.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}
