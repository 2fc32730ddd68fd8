package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	table "github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// registryError matches the output of npm if the registry is unreachable.
var registryError = regexp.MustCompile(`npm (error|ERR!) code E(NOTFOUND|AI_AGAIN|CONN[A-Z]+|TIMEDOUT|[45][0-9][0-9])\b`)

func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	s := stacktest.New(t, world)
	dir := t.TempDir()
	check.OK(t, os.CopyFS(dir, os.DirFS("typescript")))
	check.OK(t, os.WriteFile(filepath.Join(dir, "openapi.json"), table.OpenAPI, 0o600))
	info := world.Info()
	environment := append(os.Environ(), "BASE_URL="+info.BaseURL, "INGRESS="+info.IngressURL,
		"USERNAME="+info.Admin.Username, "PASSWORD="+info.Admin.Password, "PROJECT="+s.Project)
	for _, step := range []string{"ci --no-audit --no-fund", "run -s lint", "run -s generate", "run -s compile", "run -s tour"} {
		npm := exec.CommandContext(t.Context(), "npm", strings.Fields(step)...)
		npm.Dir, npm.Env = dir, environment
		out, err := npm.CombinedOutput()
		if err != nil && registryError.Match(out) {
			t.Skipf("npm's registry cannot be reached: %s", out)
		}
		if err != nil {
			t.Fatalf("npm %s: %v\n%s", step, err, out)
		}
	}
}
