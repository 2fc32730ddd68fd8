package stacktest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// Checkout checks out a commit of the repository into a folder for the test.
func Checkout(t testing.TB, commit string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	check.OK(t, err)
	dir := filepath.Join(t.TempDir(), "tree")
	git := func(args ...string) ([]byte, error) {
		return exec.Command("git", append([]string{"-C", root, "worktree"}, args...)...).CombinedOutput()
	}
	t.Cleanup(func() {
		_, _ = git("remove", "--force", dir)
		_, _ = git("prune")
	})
	if out, err := git("add", "--detach", dir, commit); err != nil {
		t.Fatalf("check out %s: %v\n%s", commit, err, out)
	}
	return dir
}
