package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// place is what the cluster's file says besides what that of a local stack says.
type place struct {
	GitURL string `json:"git_url"` // of the folder of repositories, as pods reach it
	GitDir string `json:"git_dir"` // the folder, on this machine
}

// repository is a real git repository that the cluster's git server serves.
type repository struct {
	t   *testing.T
	dir string // the work tree
	url string
}

func newRepository(t *testing.T, name string) repository {
	t.Helper()
	var p place
	check.OK(t, json.Unmarshal(read(t, os.Getenv("SLUICE_STACK")), &p))
	if p.GitDir == "" {
		t.Skip("the cluster's file names no git server")
	}
	bare := filepath.Join(p.GitDir, name+".git")
	t.Cleanup(func() { _ = os.RemoveAll(bare) })
	r := repository{t: t, dir: t.TempDir(), url: strings.TrimSuffix(p.GitURL, "/") + "/" + name + ".git"}
	r.git("init", "--quiet", "--bare", bare)
	r.git("init", "--quiet", "--initial-branch", "main")
	r.git("remote", "add", "origin", bare)
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits a Dockerfile, pushes it, and gives the commit.
func (r repository) push(dockerfile string) string {
	r.t.Helper()
	check.OK(r.t, os.WriteFile(filepath.Join(r.dir, "Dockerfile"), []byte(dockerfile), 0o600))
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", "a change")
	r.git("push", "--quiet", "origin", "main")
	return r.git("rev-parse", "HEAD")
}

// TestBuild: a commit of a real repository is cloned, built by BuildKit, pushed, pulled and
// served; a push by webhook brings the next; one whose build fails is told with the step and
// what that said last, and the app goes on as before.
func TestBuild(t *testing.T) {
	row := seen.Test(t, "a commit of a real repository is cloned, built by BuildKit, pushed, pulled and served; then a push by webhook; then one whose build fails",
		"served; live; failed with the step and what it said last, the app as before")
	s := stacktest.New(t, world)
	r := newRepository(t, s.Project)
	const dockerfile = "FROM registry.example/echo:base\nENV GREETING="
	first := r.push(dockerfile + "one\n")
	name := "built"
	began := time.Now()
	_, err := s.Client.CreateApp(t.Context(), s.Project, s.Env, wire.CreateApp{Name: &name, GitSource: &wire.GitSource{Repository: r.url, Branch: "main"}})
	check.OK(t, err)
	live := s.Settled(name, 1, "live")
	s.Call(name).Within(time.Minute).Gets(200)
	took := time.Since(began).Round(100 * time.Millisecond)
	if b, err := s.Client.Build(t.Context(), s.Project, s.Env, name, 1); err != nil || string(b.Commit) != first {
		t.Errorf("the first build is of %q (%v), want %s", b.Commit, err, first)
	}

	url, token := s.Webhook(name)
	second := r.push(dockerfile + "two\n")
	began = time.Now()
	if a := s.Post(url, []byte(`{"commit":"`+second+`"}`), "X-Service-Token", token); a.Status != 202 {
		t.Fatalf("push: %d %s", a.Status, a.Body)
	}
	if next := s.Settled(name, 2, "live"); next.Image == live.Image {
		t.Errorf("the push brought the same image: %s", next.Image)
	}
	row.Measured(fmt.Sprintf("served after %v, the push live after %v", took, time.Since(began).Round(100*time.Millisecond)))

	third := r.push(dockerfile + "three\nCOPY there-is-no-such-file /\n")
	if a := s.Post(url, []byte(`{"commit":"`+third+`"}`), "X-Service-Token", token); a.Status != 202 {
		t.Fatalf("push: %d %s", a.Status, a.Body)
	}
	var failed wire.Build
	s.Until("fail", func() bool {
		failed, err = s.Client.Build(t.Context(), s.Project, s.Env, name, 3)
		return err == nil && failed.Status == "failed"
	})
	t.Logf("a build that fails says: %s", failed.Message)
	for _, says := range []string{"build-and-push", "there-is-no-such-file"} {
		if !strings.Contains(string(failed.Message), says) {
			t.Errorf("it does not say %q", says)
		}
	}
	if now := s.History(name)[0]; now.Revision != 2 || now.Status != "live" {
		t.Errorf("after it the app is at %+v", now)
	}
}
