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

// place contains the fields that only a cluster's file has.
type place struct {
	GitURL string `json:"git_url"` // folder of repositories, for pods
	GitDir string `json:"git_dir"` // on this machine
}

// repository is a git repository on the cluster's git server.
type repository struct {
	t   *testing.T
	dir string
	url string
}

func newRepository(t *testing.T, name string) repository {
	t.Helper()
	var p place
	check.OK(t, json.Unmarshal(read(t, os.Getenv("SLUICE_STACK")), &p))
	if p.GitDir == "" {
		t.Skip("the cluster's file contains no git server")
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

// push returns the commit.
func (r repository) push(dockerfile string) string {
	r.t.Helper()
	check.OK(r.t, os.WriteFile(filepath.Join(r.dir, "Dockerfile"), []byte(dockerfile), 0o600))
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message", "a change")
	r.git("push", "--quiet", "origin", "main")
	return r.git("rev-parse", "HEAD")
}

// TestBuild also checks that a failed build leaves the app unchanged.
func TestBuild(t *testing.T) {
	row := seen.Test(t, "deploy a commit of a real repository with BuildKit, then a commit by webhook, then a commit whose build fails",
		"the first is served, the second is live; the third fails with its step and last output, and the app is unchanged")
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
		t.Errorf("first build: got commit %q, %v, want %s", b.Commit, err, first)
	}

	url, token := s.Webhook(name)
	second := r.push(dockerfile + "two\n")
	began = time.Now()
	if a := s.Post(url, []byte(`{"commit":"`+second+`"}`), "X-Service-Token", token); a.Status != 202 {
		t.Fatalf("push: got %d %s, want 202", a.Status, a.Body)
	}
	if next := s.Settled(name, 2, "live"); next.Image == live.Image {
		t.Errorf("push: got the previous image %s, want another one", next.Image)
	}
	row.Measured(fmt.Sprintf("served after %v, second commit live after %v", took, time.Since(began).Round(100*time.Millisecond)))

	third := r.push(dockerfile + "three\nCOPY there-is-no-such-file /\n")
	if a := s.Post(url, []byte(`{"commit":"`+third+`"}`), "X-Service-Token", token); a.Status != 202 {
		t.Fatalf("push: got %d %s, want 202", a.Status, a.Body)
	}
	var failed wire.Build
	s.Until("fail", func() bool {
		failed, err = s.Client.Build(t.Context(), s.Project, s.Env, name, 3)
		return err == nil && failed.Status == "failed"
	})
	t.Logf("message of the failed build: %s", failed.Message)
	for _, want := range []string{"build-and-push", "there-is-no-such-file"} {
		if !strings.Contains(string(failed.Message), want) {
			t.Errorf("failed build: got a message without %q", want)
		}
	}
	if now := s.History(name)[0]; now.Revision != 2 || now.Status != "live" {
		t.Errorf("after the failed build: got %+v, want revision 2 live", now)
	}
}
