package snippet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/tests/check"
)

const token = "dG9rZW4tb2YtdGhlLXdlYmhvb2tfLS1hbmQtbW9yZQ"

type call struct {
	Method, Path, Token, Type, Delivery, Body string
}

func webhook(t *testing.T) (*httptest.Server, chan call) {
	t.Helper()
	calls := make(chan call, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Method, r.URL.Path, r.Header.Get("X-Service-Token"), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), string(body)}
		if r.Header.Get("X-Service-Token") != token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"invalid_token"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"deployed"}`))
	}))
	t.Cleanup(s.Close)
	return s, calls
}

func shell(t *testing.T, dir, script string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestCurlRunsAsPrinted(t *testing.T) {
	t.Parallel()
	s, calls := webhook(t)
	h := Hook{App: "hello", URL: s.URL + "/api/v1/webhook/shop-prod/hello", Token: token, Image: "registry.example.com/hello:v1"}
	out, err := shell(t, t.TempDir(), h.For(Curl))
	if err != nil || out != `{"status":"deployed"}`+"\n" {
		t.Fatalf("got %v: %s", err, out)
	}
	want := call{"POST", "/api/v1/webhook/shop-prod/hello", token, "application/json", "", `{"image":"registry.example.com/hello:v1"}`}
	check.Equal(t, "called with", want, <-calls)
	h.Token = "wrong"
	if out, err := shell(t, t.TempDir(), h.For(Curl)); err == nil {
		t.Errorf("wrong token: got success: %s", out)
	}
}

func TestSnippetsWaitForTheResult(t *testing.T) {
	t.Parallel()
	const more = `","commit":"","message":"\"status\":\"failed\" {\"status\":\"live\"","status_url":"`
	tests := []struct {
		name     string
		statuses []string // of the responses, in order
		fails    bool
	}{
		{"deployed", []string{"deployed"}, false},
		{"failed", []string{"failed"}, true},
		{"failed later", []string{"rolling_out", "failed"}, true},
		{"live later", []string{"building", "rolling_out", "live"}, false},
		{"superseded", []string{"superseded"}, false},
		{"unknown", []string{""}, true},
	}
	for _, tt := range tests {
		for _, ci := range All() {
			t.Run(tt.name+"/"+string(ci), func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n := calls.Add(1) - 1
					if (r.URL.Path == "/hook") != (n == 0) || r.Header.Get("Prefer") != "wait=300" || r.Header.Get("X-Service-Token") != token {
						t.Errorf("call %d: got %s %v", n, r.URL, r.Header)
					}
					response := `{"status":"` + tt.statuses[n] + more + "http://" + r.Host + `/status/7"}`
					if tt.statuses[n] == "" {
						response = `<html>`
					}
					_, _ = w.Write([]byte(response))
				}))
				t.Cleanup(s.Close)
				h := Hook{App: "hello", URL: s.URL + "/hook", Token: token, Branch: "release/1"}
				script, env := h.For(ci), os.Environ()
				if ci != Curl {
					script, env = pipeline(t, ci, script, "0123456")
				}
				out, err := shell(t, t.TempDir(), strings.ReplaceAll(script, "sleep 5", "sleep 0"), env...)
				if n := int(calls.Load()); (err != nil) != tt.fails || n != len(tt.statuses) {
					t.Errorf("got %v after %d calls, want %d calls: %s", err, n, len(tt.statuses), out)
				}
			})
		}
	}
}

func TestCurlOfAGitAppSendsTheCommit(t *testing.T) {
	t.Parallel()
	s, calls := webhook(t)
	dir := t.TempDir()
	head, err := shell(t, dir, "git init -q . && git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m x && git rev-parse HEAD")
	if err != nil {
		t.Fatal(head)
	}
	h := Hook{App: "site", URL: s.URL + "/hook", Token: token, Git: true}
	if out, err := shell(t, dir, h.For(Curl)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := call{"POST", "/hook", token, "application/json", "", fmt.Sprintf(`{"commit":%q}`, strings.TrimSpace(head))}
	check.Equal(t, "called with", want, <-calls)
}

// TestPipelines checks that each pipeline is valid YAML, and that its script calls the webhook with
// the variables of the system.
func TestPipelines(t *testing.T) {
	t.Parallel()
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for _, git := range []bool{false, true} {
		for _, ci := range []CI{GitHub, GitLab} {
			t.Run(fmt.Sprintf("%s/git=%v", ci, git), func(t *testing.T) {
				t.Parallel()
				s, calls := webhook(t)
				h := Hook{App: "hello", URL: s.URL + "/hook", Token: token, Git: git, Image: "registry.example.com:5000/shop/hello:v1@sha256:abc", Branch: "release/1"}
				text := h.For(ci)
				if strings.Contains(text, token) {
					t.Error("the pipeline contains the token")
				}
				script, env := pipeline(t, ci, text, sha)
				if out, err := shell(t, t.TempDir(), script, env...); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				got := <-calls
				want := map[string]string{"commit": sha}
				if !git {
					want["image"] = "registry.example.com:5000/shop/hello:" + sha
				}
				var body map[string]string
				check.OK(t, json.Unmarshal([]byte(got.Body), &body))
				if diff := cmp.Diff(want, body); diff != "" || got.Token != token || !strings.HasSuffix(got.Delivery, "7-1") {
					t.Errorf("got call %+v, body (-want +got):\n%s", got, diff)
				}
			})
		}
	}
}

func pipeline(t *testing.T, ci CI, text, sha string) (script string, env []string) {
	t.Helper()
	var github struct {
		On struct {
			Push struct{ Branches []string } `json:"push"`
		} `json:"true"` // YAML 1.1 reads "on" as true
		Jobs map[string]struct {
			Steps []struct {
				Env map[string]string
				Run string
			}
		}
	}
	var gitlab map[string]struct {
		Rules     []struct{ If string }
		Variables map[string]string
		Script    []string
	}
	var into any = &github
	if ci == GitLab {
		into = &gitlab
	}
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	known := strings.NewReplacer("${{ github.sha }}", sha, "$CI_COMMIT_SHA", sha, "${{ secrets.SLUICE_WEBHOOK_TOKEN }}", token)
	set := map[string]string{"SLUICE_WEBHOOK_TOKEN": token, "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1", "CI_JOB_ID": "7-1"}
	var variables map[string]string
	if ci == GitLab {
		variables, script = gitlab["deploy"].Variables, strings.Join(gitlab["deploy"].Script, "\n")
		if got := gitlab["deploy"].Rules[0].If; got != `$CI_COMMIT_BRANCH == "release/1"` {
			t.Errorf("rule: got %s", got)
		}
	} else {
		step := github.Jobs["deploy"].Steps[0]
		variables, script = step.Env, step.Run
		if diff := cmp.Diff([]string{"release/1"}, github.On.Push.Branches); diff != "" {
			t.Errorf("branches (-want +got):\n%s", diff)
		}
	}
	for k, v := range variables {
		set[k] = known.Replace(v)
	}
	for k, v := range set {
		env = append(env, k+"="+v)
	}
	return script, env
}

func TestTokenStaysOffTheProcessList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fake := "#!/bin/sh\necho '{\"status\":\"deployed\"}' \"$@\"\n"
	check.OK(t, os.WriteFile(filepath.Join(dir, "curl"), []byte(fake), 0o755))
	h := Hook{App: "hello", URL: "https://sluice.example.com/it's", Token: token}
	out, err := shell(t, dir, h.For(Curl), "PATH="+dir+":"+os.Getenv("PATH"))
	if err != nil || strings.Contains(out, token) || !strings.Contains(out, "https://sluice.example.com/it's") {
		t.Errorf("got %v, arguments of curl: %s", err, out)
	}
}

// TestKeyless checks that pipelines without a secret send OpenID Connect tokens for the audience. If
// the system issues tokens on demand, each call has a new one.
func TestKeyless(t *testing.T) {
	t.Parallel()
	const audience = "https://sluice.example.com/api/v1/webhook/shop-prod/hello?a&b"
	for _, ci := range []CI{GitHub, Forgejo, GitLab} {
		t.Run(string(ci), func(t *testing.T) {
			t.Parallel()
			var calls, issued atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					if r.URL.Query().Get("audience") != audience || r.Header.Get("Authorization") != "Bearer of-the-job" {
						t.Errorf("token request: got %s %v", r.URL, r.Header)
					}
					_, _ = fmt.Fprintf(w, `{"count":1, "value": "token-%d"}`, issued.Add(1))
					return
				}
				n, want := calls.Add(1), "Bearer token-0"
				if ci != GitLab {
					want = fmt.Sprintf("Bearer token-%d", n)
				}
				if got := r.Header.Get("Authorization"); got != want || r.Header.Get("X-Service-Token") != "" {
					t.Errorf("call %d: got %q, want %q", n, got, want)
				}
				status := "rolling_out"
				if n == 2 {
					status = "live"
				}
				_, _ = w.Write([]byte(`{"status":"` + status + `","status_url":"http://` + r.Host + `/status/7"}`))
			}))
			t.Cleanup(s.Close)
			h := Hook{App: "hello", URL: s.URL + "/hook", Audience: audience, Branch: "release/1"}
			text := h.For(ci)
			if strings.Contains(text, "secrets.") || strings.Contains(text, "SLUICE_WEBHOOK_TOKEN") || !strings.Contains(h.Title(ci), "without any secret") {
				t.Errorf("the pipeline needs a secret:\n%s", text)
			}
			for system, mark := range map[CI]string{GitHub: "id-token: write", Forgejo: "enable-openid-connect: true", GitLab: "aud: " + scalar(audience)} {
				if strings.Contains(text, mark) != (system == ci) {
					t.Errorf("contains %q: got %v, want %v:\n%s", mark, system != ci, system == ci, text)
				}
			}
			script, env := pipeline(t, ci, text, "0123456")
			env = append(env, "ACTIONS_ID_TOKEN_REQUEST_URL="+s.URL+"/token?v=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=of-the-job", "SLUICE_ID_TOKEN=token-0")
			if out, err := shell(t, t.TempDir(), strings.ReplaceAll(script, "sleep 5", "sleep 0"), env...); err != nil || calls.Load() != 2 {
				t.Errorf("got %v after %d calls, want 2: %s", err, calls.Load(), out)
			}
		})
	}
}
