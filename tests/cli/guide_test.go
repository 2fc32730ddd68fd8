package cli

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestKeylessGuide runs the commands of infra/keyless.md, with a simulated run of GitHub Actions.
func TestKeylessGuide(t *testing.T) {
	stacktest.Insides(t, "needs the stack's issuer")
	t.Parallel()
	p := site(t, "shop")
	p.does("app create hello --image " + v1)
	p.calls("hello", "", http.StatusOK)
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	check.OK(t, err)
	for i, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		p.env = append(p.env, name+"="+strings.Split(string(cache), "\n")[i])
	}
	if got := p.follows("keyless.md"); !strings.Contains(got, "Sluice: live, revision 2") {
		t.Errorf("output: got\n%s", got)
	}
	var history wire.List[wire.Deployment]
	p.reads(&history, "app history hello")
	if d := history.Items[0]; d.Actor != "github: org/repo@main by workflow deploy" || d.Trigger != "webhook" || d.Image != "registry.example/hello:v3" {
		t.Errorf("newest deployment: got %+v", d)
	}
}

// TestWebhookGuide runs the commands of infra/webhook.md.
func TestWebhookGuide(t *testing.T) {
	t.Parallel()
	p := site(t, "guide")
	p.does("app create hello --image " + v1)
	p.calls("hello", "", http.StatusOK)
	if got := p.follows("webhook.md", "=shop", "=guide"); !strings.Contains(got, `"status":"deployed"`) {
		t.Errorf("output: got\n%s", got)
	}
	var history wire.List[wire.Deployment]
	p.reads(&history, "app history hello")
	if d := history.Items[0]; d.Revision != 2 || d.Trigger != "webhook" || d.Image != "registry.example/hello:v2" || d.Commit != "9fceb02d" {
		t.Errorf("newest deployment: got %+v", d)
	}
}

// follows runs the commands of a guide in infra, in the root of the repository, and returns the
// output. It replaces the given pairs of texts in the commands.
func (p *person) follows(guide string, replaced ...string) string {
	p.t.Helper()
	page, err := os.ReadFile(filepath.Join("../../infra", guide))
	check.OK(p.t, err)
	_, here, _ := strings.Cut(string(page), "## Try it here")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(here)
	if commands == nil {
		p.t.Fatalf("%s has no commands", guide)
	}
	if p.home, err = filepath.Abs("../.."); err != nil {
		p.t.Fatal(err)
	}
	local := filepath.Dir(program) + "/" // guides use .local/
	got := p.run("", "bash", "-euc", strings.NewReplacer(append(replaced, ".local/", local)...).Replace(commands[1]))
	if got.exit != 0 {
		p.t.Fatalf("exit %d:\n%s%s", got.exit, got.out, got.err)
	}
	return got.out
}
