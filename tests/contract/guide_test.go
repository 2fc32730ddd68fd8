package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuide: the sluice commands in the production guide and the runbook exist, with
// the flags that they are given, and so do the files that they link to.
func TestGuide(t *testing.T) {
	t.Parallel()
	commands, links := 0, 0
	for _, page := range []string{"README.md", "monitoring/runbook.md", "firestore/README.md"} {
		text := string(mustRead(t, filepath.Join(checkout, "infra", page)))
		for _, m := range regexp.MustCompile("(?m)(?:^|[`&|] ?|\\) *)sluice ([a-z][^`\n|&#]*)").FindAllStringSubmatch(text, -1) {
			checkCommand(t, page, m[1])
			commands++
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(checkout, "infra", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to what is not there: %v", page, err)
			}
			links++
		}
	}
	if commands < 12 || links < 8 {
		t.Errorf("only %d commands and %d links were found", commands, links)
	}
}

// checkCommand looks a command up in the pages of the command line, by its longest name.
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
		t.Errorf("%s: there is no command %q", page, line)
		return
	}
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(line, -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(flag) + `\b`).MatchString(manual) {
			t.Errorf("%s: %q has no %s", page, line, flag)
		}
	}
}
