// Package action tests the GitHub Action. It runs deploy.sh with the variables of a GitHub runner.
package action

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/emulators/issuer"
	"github.com/sluicegate/sluice/tests/check"
)

const webhookToken = "dG9rZW4tb2YtdGhlLXdlYmhvb2tfLS1hbmQtbW9yZQ"

type webhook struct {
	*httptest.Server

	mu      sync.Mutex
	answers []string // status and body, e.g. `200 {"status":"live"}`
	calls   []*http.Request
	bodies  []string
}

func newWebhook(t *testing.T, answers ...string) *webhook {
	t.Helper()
	h := &webhook{answers: answers}
	h.Server = httptest.NewUnstartedServer(h)
	h.Start()
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP implements [http.Handler].
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls, h.bodies = append(h.calls, r), append(h.bodies, string(body))
	var status int
	answer := h.answers[min(len(h.calls), len(h.answers))-1]
	text, _ := strings.CutPrefix(answer, answer[:4])
	_, _ = fmt.Sscan(answer[:3], &status)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.ReplaceAll(text, "HOOK", "http://"+r.Host)))
}

func (h *webhook) came() (calls []*http.Request, bodies []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls), slices.Clone(h.bodies)
}

type run struct {
	code               int
	log, outputs, page string
}

func act(t *testing.T, variables ...string) run {
	t.Helper()
	dir := t.TempDir()
	outputs, page := filepath.Join(dir, "outputs"), filepath.Join(dir, "summary")
	cmd := exec.CommandContext(t.Context(), "bash", "deploy.sh")
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "GITHUB_ACTIONS=true", "GITHUB_RUN_ID=77", "GITHUB_RUN_ATTEMPT=2", "GITHUB_JOB=deploy", "GITHUB_ACTION=sluice",
		"GITHUB_OUTPUT=" + outputs, "GITHUB_STEP_SUMMARY=" + page, "SLUICE_PAUSE=0", "no_proxy=127.0.0.1",
	}, variables...)
	log, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	read := func(name string) string { text, _ := os.ReadFile(name); return string(text) }
	return run{cmd.ProcessState.ExitCode(), string(log), read(outputs), read(page)}
}

// TestAction checks the exit code, outputs and summary for each response of the webhook.
func TestAction(t *testing.T) {
	t.Parallel()
	const rolling = `202 {"status":"rolling_out","revision":4,"status_url":"HOOK/deployments/4"}`
	for name, c := range map[string]struct {
		answers []string
		code    int
		log     string
		outputs string
		calls   int
	}{
		"immediately": {[]string{`200 {"status":"deployed","build":null,"revision":4,"image":"r.example/a:1"}`}, 0, "Sluice: live, revision 4", "status=deployed\nrevision=4\nbuild=\nimage=r.example/a:1\n", 1},
		"later":       {[]string{rolling, rolling, `200 {"status":"live","revision":4,"image":"r.example/a:1"}`}, 0, "Sluice: live", "status=live\nrevision=4\nbuild=\nimage=r.example/a:1\n", 3},
		"built":       {[]string{`202 {"status":"building","build":7,"revision":null,"status_url":"HOOK/builds/7"}`, `200 {"status":"live","build":7,"revision":5,"image":"r.example/a:b7"}`}, 0, "revision 5", "status=live\nrevision=5\nbuild=7\nimage=r.example/a:b7\n", 2},
		"superseded":  {[]string{`200 {"status":"superseded","revision":4}`}, 0, "superseded", "status=superseded\nrevision=4\nbuild=\nimage=\n", 1},
		"failed":      {[]string{rolling, `200 {"status":"failed","revision":4,"message":"not \"ready\"\nat all %"}`}, 1, `::error title=Sluice::The deployment failed: not "ready"nat all %25`, "status=failed\nrevision=4\nbuild=\nimage=\n", 2},
		"rejected":    {[]string{`401 {"code":"invalid_token","message":"A valid webhook token or signature is required."}`}, 1, "::error title=Sluice::The webhook returned 401 invalid_token", "", 1},
		"not found":   {[]string{`404 <html>`}, 1, "::error title=Sluice::The webhook returned 404", "", 1},
		"a redirect":  {[]string{`302 x`}, 1, "::error title=Sluice::The webhook returned 302", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWebhook(t, c.answers...)
			got := act(t, "SLUICE_URL="+h.URL, "SLUICE_IMAGE=r.example/a:1", "SLUICE_COMMIT=9fceb02d", "SLUICE_WEBHOOK_TOKEN="+webhookToken)
			if got.code != c.code || !strings.Contains(got.log, c.log) || got.outputs != c.outputs {
				t.Errorf("got exit %d, outputs %q, want exit %d, outputs %q; log:\n%s", got.code, got.outputs, c.code, c.outputs, got.log)
			}
			calls, bodies := h.came()
			if len(calls) != c.calls {
				t.Fatalf("got %d calls, want %d", len(calls), c.calls)
			}
			first := calls[0]
			if first.Header.Get("X-Service-Token") != webhookToken || !strings.HasPrefix(first.Header.Get("Idempotency-Key"), "github-77-2-deploy-sluice-") || bodies[0] != `{"image":"r.example/a:1","commit":"9fceb02d"}` {
				t.Errorf("first call: got %v %s", first.Header, bodies[0])
			}
			if strings.Contains(strings.ReplaceAll(got.log, "::add-mask::"+webhookToken, ""), webhookToken) {
				t.Error("the log contains the token")
			}
			if len(calls) > 1 && !strings.HasPrefix(calls[1].URL.Path, "/deployments/") && !strings.HasPrefix(calls[1].URL.Path, "/builds/") {
				t.Errorf("second call: got path %s, want the status URL", calls[1].URL.Path)
			}
			if c.code == 0 && !strings.Contains(got.page, "Sluice: **") {
				t.Errorf("summary: got %q", got.page)
			}
		})
	}
}

func TestDeliveryID(t *testing.T) {
	t.Parallel()
	base := []string{"SLUICE_IMAGE=r.example/a:1", "SLUICE_COMMIT=9fceb02d", "SLUICE_MATRIX={\n  \"os\": \"linux\"\n}", "SLUICE_WEBHOOK_TOKEN=" + webhookToken}
	seen := map[string]string{}
	for name, variable := range map[string]string{
		"the same": "GITHUB_JOB=deploy", "job": "GITHUB_JOB=other", "matrix": "SLUICE_MATRIX={\n  \"os\": \"darwin\"\n}", "image": "SLUICE_IMAGE=r.example/a:2", "commit": "SLUICE_COMMIT=9fceb02e",
	} {
		h := newWebhook(t, `200 {"status":"deployed","revision":4}`)
		for range 2 {
			if got := act(t, append(slices.Clone(base), "SLUICE_URL="+h.URL, variable)...); got.code != 0 {
				t.Fatalf("%s: exit %d:\n%s", name, got.code, got.log)
			}
		}
		calls, _ := h.came()
		id := calls[0].Header.Get("Idempotency-Key")
		if again := calls[1].Header.Get("Idempotency-Key"); again != id {
			t.Errorf("%s: got the delivery IDs %q and %q, want the same", name, id, again)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s: got the same delivery ID %q", name, other, id)
		}
		seen[id] = name
	}
}

func TestActionKeyless(t *testing.T) {
	t.Parallel()
	h := newWebhook(t, `202 {"status":"rolling_out","revision":4,"status_url":"HOOK/deployments/4"}`, `200 {"status":"live","revision":4}`)
	asked := make(chan url.Values, 10)
	system, err := issuer.New("http://127.0.0.1")
	check.OK(t, err)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query()
		system.ServeHTTP(w, r)
	}))
	t.Cleanup(tokens.Close)
	request, err := issuer.RequestToken(issuer.Claims("org/repo", "main", "deploy"))
	check.OK(t, err)
	got := act(t, "SLUICE_URL="+h.URL+"/a b&c", "SLUICE_IMAGE=r.example/a:1", "SLUICE_AUDIENCE=https://sluice.example.com/a?b&c=d",
		"ACTIONS_ID_TOKEN_REQUEST_URL="+tokens.URL+"/token?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+request)
	if got.code == 0 {
		t.Error("URL with a space: got success")
	}
	got = act(t, "SLUICE_URL="+h.URL, "SLUICE_IMAGE=r.example/a:1", "SLUICE_AUDIENCE=https://sluice.example.com/a?b&c=d",
		"ACTIONS_ID_TOKEN_REQUEST_URL="+tokens.URL+"/token?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+request)
	if got.code != 0 {
		t.Fatalf("exit %d:\n%s", got.code, got.log)
	}
	seen := map[string]bool{}
	calls, _ := h.came()
	for _, r := range calls {
		seen[r.Header.Get("Authorization")] = strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey")
	}
	if len(calls) != 2 || len(seen) != 2 {
		t.Errorf("got %d calls with %d tokens, want 2 with 2", len(calls), len(seen))
	}
	close(asked)
	for q := range asked {
		if q.Get("audience") != "https://sluice.example.com/a?b&c=d" || q.Get("v") != "1" {
			t.Errorf("token request: got %v", q)
		}
	}
}

func TestActionRejectsInvalidInputs(t *testing.T) {
	t.Parallel()
	h := newWebhook(t, `200 {"status":"deployed"}`)
	for name, variables := range map[string][]string{
		"no url":       {"SLUICE_WEBHOOK_TOKEN=x"},
		"no token":     {"SLUICE_URL=" + h.URL},
		"injection":    {"SLUICE_URL=" + h.URL, "SLUICE_WEBHOOK_TOKEN=x", `SLUICE_IMAGE=a","commit":"b`},
		"a commit":     {"SLUICE_URL=" + h.URL, "SLUICE_WEBHOOK_TOKEN=x", "SLUICE_COMMIT=main"},
		"a timeout":    {"SLUICE_URL=" + h.URL, "SLUICE_WEBHOOK_TOKEN=x", "SLUICE_TIMEOUT=soon"},
		"no such host": {"SLUICE_URL=http://127.0.0.1:1/", "SLUICE_WEBHOOK_TOKEN=x"},
	} {
		if got := act(t, variables...); got.code != 1 || !strings.Contains(got.log, "::error title=Sluice::") {
			t.Errorf("%s: exit %d:\n%s", name, got.code, got.log)
		}
	}
	if calls, _ := h.came(); len(calls) > 0 {
		t.Errorf("got %d calls, want none", len(calls))
	}
}

// TestActionNeedsHTTPS checks that no token is sent over plain http to another machine, neither to
// the webhook nor to the status URL in its response.
func TestActionNeedsHTTPS(t *testing.T) {
	t.Parallel()
	const refusal = "The webhook's URL does not use https"
	for name, address := range map[string]string{
		"http":                "http://sluice.example.invalid/hook",
		"uppercase":           "HTTP://sluice.example.invalid/hook",
		"localhost as a user": "http://localhost@sluice.example.invalid/hook",
		"localhost's port":    "http://localhost:1@sluice.example.invalid/hook",
		"similar host":        "http://localhost.example.invalid/hook",
		"no scheme":           "sluice.example.invalid/hook",
	} {
		if got := act(t, "SLUICE_URL="+address, "SLUICE_WEBHOOK_TOKEN="+webhookToken); got.code != 1 || !strings.Contains(got.log, refusal) {
			t.Errorf("%s: exit %d:\n%s", name, got.code, got.log)
		}
	}
	for _, address := range []string{"https://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/"} {
		if got := act(t, "SLUICE_URL="+address, "SLUICE_WEBHOOK_TOKEN="+webhookToken); strings.Contains(got.log, refusal) {
			t.Errorf("%s: got a rejection:\n%s", address, got.log)
		}
	}
	plain := newWebhook(t, `200 {"status":"live"}`)
	address := strings.Replace(plain.URL, "127.0.0.1", "2130706433", 1) // the same address, but not recognized as local
	if got := act(t, "SLUICE_URL="+address, "SLUICE_WEBHOOK_TOKEN="+webhookToken); got.code != 1 || !strings.Contains(got.log, refusal) {
		t.Errorf("%s: got exit %d, want 1:\n%s", address, got.code, got.log)
	}
	if got := act(t, "SLUICE_URL="+address, "SLUICE_WEBHOOK_TOKEN="+webhookToken, "SLUICE_INSECURE=true"); got.code != 0 {
		t.Errorf("insecure=true: got exit %d, want 0:\n%s", got.code, got.log)
	}
	h := newWebhook(t, `202 {"status":"rolling_out","revision":4,"status_url":"http://sluice.example.invalid/4"}`)
	if got := act(t, "SLUICE_URL="+h.URL, "SLUICE_WEBHOOK_TOKEN="+webhookToken); got.code != 1 || !strings.Contains(got.log, refusal) {
		t.Errorf("status URL with http: got exit %d, want 1:\n%s", got.code, got.log)
	}
}

// TestActionPassesItsInputs checks that action.yml runs deploy.sh and passes each input to it.
func TestActionPassesItsInputs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("action.yml")
	check.OK(t, err)
	var a struct {
		Inputs, Outputs map[string]any
		Runs            struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	check.OK(t, yaml.Unmarshal(text, &a))
	step := a.Runs.Steps[0]
	if step.Env["SLUICE_MATRIX"] != "${{ toJSON(matrix) }}" {
		t.Errorf("SLUICE_MATRIX: %s", step.Env["SLUICE_MATRIX"])
	}
	delete(step.Env, "SLUICE_MATRIX")
	if !strings.Contains(step.Run, "deploy.sh") || len(step.Env) != len(a.Inputs) || len(a.Outputs) == 0 {
		t.Errorf("got action %+v", a)
	}
	script, err := os.ReadFile("deploy.sh")
	check.OK(t, err)
	for name, value := range step.Env {
		if !strings.Contains(string(script), name) || !strings.HasPrefix(value, "${{ inputs.") {
			t.Errorf("%s: %s", name, value)
		}
	}
}
