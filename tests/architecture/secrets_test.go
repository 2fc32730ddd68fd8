package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
)

// TestNoSecrets: no file that is kept, tests and their data apart, holds a key that
// could be real or a private key.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("no git checkout: %v", err)
	}
	key := regexp.MustCompile(`sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`)
	private := regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=]{20}`)
	seen := 0
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted in the working tree
		}
		seen++
		for _, found := range key.FindAll(text, -1) {
			if _, ok := apikey.Parse(found); ok {
				t.Errorf("%s holds an API key", name)
			}
		}
		if private.Match(text) {
			t.Errorf("%s holds a private key", name)
		}
	}
	if seen < 100 {
		t.Errorf("only %d files were looked at", seen)
	}
}
