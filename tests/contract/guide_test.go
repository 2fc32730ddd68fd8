package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuide checks that the sluice commands and flags in the guides exist.
func TestGuide(t *testing.T) {
	t.Parallel()
	commands := 0
	for _, page := range []string{"README.md", "infra/README.md", "infra/keyless.md", "infra/webhook.md", "infra/monitoring/runbook.md", "infra/firestore/README.md"} {
		text := string(mustRead(t, filepath.Join(checkout, page)))
		for _, m := range regexp.MustCompile("(?m)(?:^|[`&|(/] ?|\\) *)sluice ([a-z][^`\n|&#)]*)").FindAllStringSubmatch(text, -1) {
			checkCommand(t, page, m[1])
			commands++
		}
	}
	if commands < 24 {
		t.Errorf("got %d commands, want at least 24", commands)
	}
}

func checkCommand(t *testing.T, page, line string) {
	t.Helper()
	words := strings.Fields(line)
	var manual string
	for n := len(words); n > 0 && manual == ""; n-- {
		text, err := os.ReadFile(filepath.Join(checkout, "scripts", "sluice", "docs", "markdown", "sluice_"+strings.Join(words[:n], "_")+".md"))
		if err == nil {
			manual = string(text)
		}
	}
	if manual == "" {
		t.Errorf("%s: unknown command %q", page, line)
		return
	}
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(line, -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(flag) + `\b`).MatchString(manual) {
			t.Errorf("%s: %q has no %s", page, line, flag)
		}
	}
}
