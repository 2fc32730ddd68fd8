package view

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// TestThemesDifferInColours only: the dark sets other values of the names that colours
// and shadows have, and nothing that moves anything. So pages whose layout is looked at in
// the light (TestLayout of tests/console) are laid out that way in the dark.
func TestThemesDifferInColours(t *testing.T) {
	t.Parallel()
	style, err := assetFiles.ReadFile("assets/style.css")
	check.OK(t, err)
	blocks := regexp.MustCompile(`(?s)@media \(prefers-color-scheme: dark\) \{(.*?)\n\}`).FindAllSubmatch(style, -1)
	if len(blocks) == 0 {
		t.Fatal("there is no dark theme")
	}
	colour := regexp.MustCompile(`^--[a-z-]+: (#[0-9a-f]{3,8}|none)$`)
	for _, block := range blocks {
		for _, rule := range regexp.MustCompile(`(?s)\{(.*?)\}`).FindAllSubmatch(block[1], -1) {
			for declaration := range strings.SplitSeq(string(rule[1]), ";") {
				if d := strings.TrimSpace(declaration); d != "" && !colour.MatchString(d) {
					t.Errorf("the dark sets %q", d)
				}
			}
		}
	}
}
