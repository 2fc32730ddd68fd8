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
	page, err := os.ReadFile("../../infra/keyless.md")
	check.OK(t, err)
	_, here, _ := strings.Cut(string(page), "## Try it here")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(here)
	if commands == nil {
		t.Fatal("the guide has no commands")
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	check.OK(t, err)
	for i, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		p.env = append(p.env, name+"="+strings.Split(string(cache), "\n")[i])
	}
	if p.home, err = filepath.Abs("../.."); err != nil { // the guide runs in the root of the repository
		t.Fatal(err)
	}
	local := filepath.Dir(program) + "/" // the guide uses .local/
	got := p.run("", "bash", "-euc", strings.ReplaceAll(commands[1], ".local/", local))
	if got.exit != 0 {
		t.Fatalf("exit %d:\n%s%s", got.exit, got.out, got.err)
	}
	if !strings.Contains(got.out, "Sluice: live, revision 2") {
		t.Errorf("output: got\n%s", got.out)
	}
	var history wire.List[wire.Deployment]
	p.reads(&history, "app history hello")
	if d := history.Items[0]; d.Actor != "github: org/repo@main by workflow deploy" || d.Trigger != "webhook" || d.Image != "registry.example/hello:v3" {
		t.Errorf("newest deployment: got %+v", d)
	}
}
