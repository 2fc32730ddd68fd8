package stacktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Checkout returns the root of a tree of the commit, which the end of the test removes. The
// repository needs the commit in its history.
func Checkout(t testing.TB, commit string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, ".local"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(root, ".local"), "checkout-")
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) ([]byte, error) {
		return exec.Command("git", append([]string{"-C", root, "worktree"}, args...)...).CombinedOutput()
	}
	t.Cleanup(func() {
		_, _ = git("remove", "--force", dir)
		_ = os.RemoveAll(dir)
		_, _ = git("prune")
	})
	if out, err := git("add", "--detach", dir, commit); err != nil {
		t.Fatalf("check out %s: %v\n%s", commit, err, out)
	}
	return dir
}
