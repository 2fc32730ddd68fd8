package architecture

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// TestBuildListsAgree checks that the go.mod files of the tools require the same versions as
// Sluice's. A different version recompiles all packages that import the module, which takes about
// 400 s of processor time for golang.org/x/sys.
func TestBuildListsAgree(t *testing.T) {
	t.Parallel()
	sluice := requirements(t, ".")
	for _, folder := range []string{"emulators/tools", "emulators/cluster/tools/kube", "scripts/helm"} {
		shared := 0
		for module, version := range requirements(t, folder) {
			own, ok := sluice[module]
			if !ok {
				continue
			}
			shared++
			if version != own {
				t.Errorf("%s: %s requires %s, go.mod requires %s; run go get with the newer version in both", module, folder, version, own)
			}
		}
		if shared < 20 {
			t.Errorf("modules that %s shares with go.mod: got %d, want at least 20", folder, shared)
		}
	}
}

// requirements returns the versions in a go.mod, without modules replaced by a fork.
func requirements(t *testing.T, folder string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, folder)
	out, err := cmd.Output()
	check.OK(t, err)
	type module struct{ Path, Version string }
	var file struct {
		Require []module
		Replace []struct{ Old, New module }
	}
	check.OK(t, json.Unmarshal(out, &file))
	versions := map[string]string{}
	for _, m := range file.Require {
		versions[m.Path] = m.Version
	}
	for _, r := range file.Replace {
		if r.New.Path != r.Old.Path {
			delete(versions, r.Old.Path)
		} else if versions[r.Old.Path] != "" {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}
