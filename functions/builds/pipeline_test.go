package builds

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
)

type step struct {
	Name   string `json:"name"`
	Script string `json:"script"`
	Env    []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
}

func shipped(t testing.TB, name string) step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "infra", "chart", "pipeline.yaml"))
	check.OK(t, err)
	var pipeline struct {
		Spec struct {
			Tasks []struct {
				TaskSpec struct {
					Steps []step `json:"steps"`
				} `json:"taskSpec"`
			} `json:"tasks"`
		} `json:"spec"`
	}
	check.OK(t, yaml.Unmarshal(text, &pipeline))
	steps := pipeline.Spec.Tasks[0].TaskSpec.Steps
	i := slices.IndexFunc(steps, func(s step) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("step %s not found", name)
	}
	return steps[i]
}

type pod struct {
	testing.TB
	source, home, results, programs string
}

func newPod(t testing.TB) *pod {
	t.Helper()
	p := &pod{TB: t, source: t.TempDir(), home: t.TempDir(), results: t.TempDir(), programs: t.TempDir()}
	p.program("sleep", "exit 0") // no delays in tests
	return p
}

func (p *pod) program(name, script string) {
	p.Helper()
	p.write(filepath.Join(p.programs, name), "#!/bin/sh\n"+script+"\n", 0o755)
}

func (p *pod) write(path, text string, mode os.FileMode) {
	p.Helper()
	check.OK(p, os.WriteFile(path, []byte(text), mode))
}

func (p *pod) run(shell []string, s step, params map[string]string) (string, bool) {
	p.Helper()
	script := "sleep() { command sleep 0.1; }\n" + s.Script // between attempts
	for _, result := range []string{"COMMIT", "IMAGE_URL", "IMAGE_DIGEST", "ERROR"} {
		script = strings.ReplaceAll(script, "$(results."+result+".path)", filepath.Join(p.results, result))
	}
	cmd := exec.CommandContext(p.Context(), shell[0], append(slices.Clone(shell[1:]), "-c", script)...)
	cmd.Dir = p.source
	cmd.Env = []string{"PATH=" + p.programs + ":" + os.Getenv("PATH"), "HOME=" + p.home, "GIT_CONFIG_NOSYSTEM=1"}
	for _, e := range s.Env {
		if name, ok := strings.CutPrefix(e.Value, "$(params."); ok {
			cmd.Env = append(cmd.Env, e.Name+"="+params[strings.TrimSuffix(name, ")")])
		}
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	return string(out), err == nil
}

func (p *pod) result(name string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.results, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Fatal(err)
	}
	return string(text)
}

func (p *pod) explains(said string, ok bool) {
	p.Helper()
	end := p.result("ERROR")
	switch {
	case ok && end != "":
		p.Errorf("the step succeeded with the result ERROR %q", end)
	case !ok && (end == "" || len(end) > 1024 || !strings.HasSuffix(strings.TrimRight(said, "\n"), strings.TrimRight(end, "\n"))):
		p.Errorf("ERROR: got %q, want the end of the output\n%s", end, said)
	}
}

func (p *pod) checkedOut(o *origin, commit, said string, ok bool) {
	p.Helper()
	if want := o.ids[commit]; ok != (commit != "") || p.result("COMMIT") != want {
		p.Errorf("succeeded: %v, COMMIT %q, want %q %s\n%s", ok, p.result("COMMIT"), want, commit, said)
	}
	p.explains(said, ok)
	if commit != "" {
		who, err := os.ReadFile(filepath.Join(p.source, "tree", "who"))
		if err != nil || string(who) != commit {
			p.Errorf("checked out %q, %v, want %q", who, err, commit)
		}
	}
	var strange []string
	for _, dir := range []string{p.source, p.home, filepath.Join(p.source, "tree")} {
		found, err := filepath.Glob(filepath.Join(dir, "*pwned*"))
		check.OK(p, err)
		strange = append(strange, found...)
	}
	if len(strange) > 0 {
		p.Errorf("a program from the repository ran: %q", strange)
	}
}

// shells returns the shells that a step's image may have, if installed.
func shells() [][]string {
	all := [][]string{{"sh"}}
	if _, err := exec.LookPath("busybox"); err == nil {
		all = append(all, []string{"busybox", "sh"})
	}
	return all
}

// The shipped Pipeline checks out exactly the requested commit, or the branch's head without one,
// or fails.
func TestClone(t *testing.T) {
	t.Parallel()
	clone := shipped(t, "clone")
	for _, s := range long.Pick(servers()[:3], servers()) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, s)
			for _, shell := range shells() {
				for _, c := range cloneCases(o, s) {
					t.Run(strings.Join(shell, " ")+"/"+c.name, func(t *testing.T) {
						t.Parallel()
						t.Logf("branch %q, commit %q", c.branch, c.commit)
						p := newPod(t)
						said, ok := p.run(shell, clone, map[string]string{"repository": o.url, "branch": c.branch, "commit": c.commit})
						p.checkedOut(o, c.want, said, ok)
					})
				}
			}
		})
	}
}

type cloneCase struct{ name, branch, commit, want string }

func cloneCases(o *origin, s server) []cloneCase {
	given := func(commit string) string { // only if the server serves any object
		if s.anyID {
			return commit
		}
		return ""
	}
	return []cloneCase{
		{"the branch's head", "main", "", "third"},
		{"its head by id", "main", o.ids["third"], "third"},
		{"an older commit", "main", o.ids["first"], "first"},
		{"the first digits of one", "main", o.ids["second"][:7], "second"},
		{"the first digits of one that is called like a branch", "main", o.ids["first"][:12], "first"},
		{"a branch that is called like a commit", o.ids["third"], "", "evil aaa"},
		{"a branch that begins with refs/heads", "refs/heads/gone", "", "evil refs/heads/gone"},
		{"a branch that is called HEAD", "HEAD", "", "evil HEAD"},
		{"another branch's head by id", "main", o.ids["evil aaa"], "evil aaa"},
		{"a commit of another branch", "main", o.ids["evil old aaa"], given("evil old aaa")},
		{"a commit that was pushed over", "main", o.ids["forced away"], given("forced away")},
		{"a commit of a branch that is gone", "gone", o.ids["first"], given("first")},
		{"the first digits of another branch's", "main", o.ids["evil aaa"][:12], ""},
		{"the first digits of one that was pushed over", "main", o.ids["forced away"][:12], ""},
		{"the first digits, of a branch that is gone", "gone", o.ids["first"][:12], ""},
		{"digits that several begin with", "long", o.ids["two alike"], ""},
		{"digits that none begins with", "main", strings.Repeat("0", 9), ""},
		{"a missing commit", "main", strings.Repeat("0", len(o.ids["first"])-1) + "1", ""},
		{"no commit", "main", strings.Repeat("0", len(o.ids["first"])), ""},
		{"more digits than a hash has", "main", o.ids["first"] + "0", ""},
		{"a tag's id", "main", o.ids["tag v1"], ""},
		{"a tree's id", "main", o.ids["tree"], ""},
		{"a branch that is gone", "gone", "", ""},
		{"a branch that never was", "mai", "", ""},
		{"a tag for a branch", "v1", "", ""},
		{"a commit for a branch", o.ids["second"], "", ""},
		{"a branch's name for a commit", "main", "aaa", ""},
		{"no branch", "", "", ""},
	}
}

func TestCloneOfHostileNames(t *testing.T) {
	t.Parallel()
	clone := shipped(t, "clone")
	o := newOrigin(t, servers()[0])
	for i, name := range []string{
		"--upload-pack=touch pwned", "-", "--", "$(touch pwned)", "`touch pwned`", "; touch pwned", "main\naaa", "main aaa", "*", "mai*", "m?in", "[m]ain",
		"main:refs/heads/x", "+main", "main^", "main^{tree}", "main~1", "main@{0}", "..", "../main", "FETCH_HEAD", "refs/tags/main", "/main", "main/", "$HOME", "|| true", "%", "\\",
		strings.ToUpper(o.ids["first"]), o.ids["first"] + "^", o.ids["first"] + "\n" + o.ids["second"],
	} {
		for _, shell := range shells() {
			t.Run(strings.Join(shell, " ")+"/"+strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for _, params := range []map[string]string{{"branch": name}, {"branch": "main", "commit": name}} {
					t.Logf("%q", params)
					params["repository"] = o.url
					p := newPod(t)
					said, ok := p.run(shell, clone, params)
					p.checkedOut(o, "", said, ok)
				}
			})
		}
	}
}

func TestCloneThroughFailures(t *testing.T) {
	t.Parallel()
	clone := shipped(t, "clone")
	for _, s := range long.Pick(servers()[:2], servers()) {
		for commit, want := range map[string]string{"": "third", "first": "first"} {
			t.Run(s.name+"/"+want, func(t *testing.T) {
				t.Parallel()
				o := newOrigin(t, s)
				params := map[string]string{"repository": o.url, "branch": "main", "commit": o.ids[commit]}
				for lost := int64(1); lost == 1 || o.asked.Load() >= lost-1; lost++ {
					o.asked.Store(0)
					o.lost.Store(lost)
					p := newPod(t)
					said, ok := p.run(shells()[0], clone, params)
					p.checkedOut(o, want, said, ok)
				}
				o.lost.Store(-1)
				p := newPod(t)
				said, ok := p.run(shells()[0], clone, params)
				p.checkedOut(o, "", said, ok)
			})
		}
	}
}

func TestCloneWithCredentials(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, servers()[0])
	o.account = "builder:secret"
	params := map[string]string{"repository": o.url, "branch": "main", "commit": ""}
	p := newPod(t)
	said, ok := p.run(shells()[0], shipped(t, "clone"), params)
	p.checkedOut(o, "", said, ok)
	p = newPod(t)
	host := strings.TrimSuffix(o.url, "/hello.git")
	p.write(filepath.Join(p.home, ".gitconfig"), "[credential]\n\thelper = store\n[credential \""+host+"\"]\n\tusername = \"builder\"\n", 0o600)
	p.write(filepath.Join(p.home, ".git-credentials"), strings.Replace(host, "://", "://builder:secret@", 1)+"\n", 0o600)
	said, ok = p.run(shells()[0], shipped(t, "clone"), params)
	p.checkedOut(o, "third", said, ok)
}

// Only a folder of the repository is built, even if its path is a link to another folder.
func TestBuildAndPush(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, servers()[0])
	tests := []struct{ path, want string }{
		{"", "."},
		{"/", "."},
		{"services/api", "services/api"},
		{"inside", "services/api"},
		{"outside", ""},
		{"root", ""},
		{"..", ""},
		{"../..", ""},
		{"services/../..", ""},
		{"services/other", ""},
		{"who", ""},
		{"$(touch pwned)", ""},
		{"-", ""},
	}
	for _, shell := range shells() {
		for i, tt := range tests {
			t.Run(strings.Join(shell, " ")+"/"+strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				t.Logf("path %q", tt.path)
				p := newPod(t)
				if said, ok := p.run(shell, shipped(t, "clone"), map[string]string{"repository": o.url, "branch": "main"}); !ok {
					t.Fatal(said)
				}
				p.program("buildctl-daemonless.sh", `for a; do echo "$a"; done > `+p.results+`/args
printf '{\n  "containerimage.config.digest": "sha256:0",\n  "containerimage.digest": "sha256:9f86"\n}\n' > ../built.json`)
				said, ok := p.run(shell, shipped(t, "build-and-push"), map[string]string{"path": tt.path, "image": "r.example.com/hello:build-1"})
				p.explains(said, ok)
				if tt.want == "" {
					if ok || p.result("args") != "" || p.result("IMAGE_URL") != "" {
						t.Errorf("succeeded: %v, built with %s\n%s", ok, p.result("args"), said)
					}
					return
				}
				got := []string{p.result("IMAGE_URL"), p.result("IMAGE_DIGEST")}
				if diff := cmp.Diff([]string{"r.example.com/hello:build-1", "sha256:9f86"}, got); diff != "" || !ok {
					t.Errorf("succeeded: %v, results (-want +got):\n%s\n%s", ok, diff, said)
				}
				if folder := filepath.Join(p.source, "tree", tt.want); !strings.Contains(p.result("args"), "context="+folder+"\n") {
					t.Errorf("built with %s, want the folder %s", p.result("args"), folder)
				}
			})
		}
	}
}

// A failing build logs its output, and its last lines are the result ERROR: at most 1 KiB,
// printable, without credentials.
func TestBuildThatFails(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, servers()[0])
	for _, shell := range shells() {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			t.Parallel()
			p := newPod(t)
			if said, ok := p.run(shell, shipped(t, "clone"), map[string]string{"repository": o.url, "branch": "main"}); !ok {
				t.Fatal(said)
			}
			p.program("buildctl-daemonless.sh", `i=0; while [ $i -lt 300 ]; do echo "step $i" >&2; i=$((i+1)); done
printf 'fetch https://ada:pa@ss@git.example.com/x \033[31mred\n' >&2
echo 'failed to solve: exit code 7' >&2
exit 3`)
			said, ok := p.run(shell, shipped(t, "build-and-push"), map[string]string{"path": "", "image": "r.example.com/hello:build-1"})
			if ok || !strings.HasPrefix(said, "step 0\n") || !strings.Contains(said, "\nstep 299\n") {
				t.Errorf("succeeded: %v, said\n%s", ok, said)
			}
			end := p.result("ERROR")
			const want = "\nfetch https://[redacted]@git.example.com/x [31mred\nfailed to solve: exit code 7\n"
			if len(end) != 1024 || !strings.HasSuffix(end, want) || p.result("IMAGE_URL") != "" {
				t.Errorf("ERROR is %d bytes: %q", len(end), end)
			}
		})
	}
}
