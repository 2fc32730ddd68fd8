package view

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// TestThemesDifferInColors checks that the dark theme changes only colors and shadows. TestLayout in
// tests/console therefore tests only the light theme.
func TestThemesDifferInColors(t *testing.T) {
	t.Parallel()
	style, err := assetFiles.ReadFile("assets/style.css")
	check.OK(t, err)
	blocks := regexp.MustCompile(`(?s)@media \(prefers-color-scheme: dark\) \{(.*?)\n\}`).FindAllSubmatch(style, -1)
	if len(blocks) == 0 {
		t.Fatal("no dark theme found")
	}
	color := regexp.MustCompile(`^--[a-z-]+: (#[0-9a-f]{3,8}|none)$`)
	for _, block := range blocks {
		for _, rule := range regexp.MustCompile(`(?s)\{(.*?)\}`).FindAllSubmatch(block[1], -1) {
			for declaration := range strings.SplitSeq(string(rule[1]), ";") {
				if d := strings.TrimSpace(declaration); d != "" && !color.MatchString(d) {
					t.Errorf("the dark theme sets %q", d)
				}
			}
		}
	}
}
