package view

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func allTemplates(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	check.OK(t, fs.WalkDir(templateFiles, "templates", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templateFiles.ReadFile(file)
		all[path.Base(file)] = string(text)
		return err
	}))
	if len(all) < 20 {
		t.Fatalf("got only %d templates", len(all))
	}
	return all
}

// TestIconsAreUsed checks that the embedded icons are those that templates use, and that the
// license is present.
func TestIconsAreUsed(t *testing.T) {
	t.Parallel()
	known, err := readIcons()
	check.OK(t, err)
	used := map[string]bool{}
	for _, tone := range []string{"good", "amber", "bad", "blue", ""} {
		used[toneIcon(tone)] = true
	}
	for name, text := range allTemplates(t) {
		for _, m := range regexp.MustCompile(`\bicon "([^"]*)"`).FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
			if _, ok := known[m[1]]; !ok {
				t.Errorf("%s uses the unknown icon %s", name, m[1])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !used[name] {
			t.Errorf("no template uses the icon %s", name)
		}
		if svg := string(known[name]); !strings.HasPrefix(svg, "<svg class=\"icon\"") || strings.Contains(svg, "style=") || strings.Contains(svg, "stroke-width") {
			t.Errorf("icon %s: got %s", name, svg)
		}
	}
	license, err := assetFiles.ReadFile("assets/lucide.LICENSE")
	check.OK(t, err)
	for _, want := range []string{"ISC License", "Lucide Icons and Contributors", "The MIT License"} {
		if !strings.Contains(string(license), want) {
			t.Errorf("the license does not contain %q", want)
		}
	}
}

// TestIconsHaveText checks that a text follows each icon in its element.
func TestIconsHaveText(t *testing.T) {
	t.Parallel()
	text := regexp.MustCompile(`^\s*(?:\{\{|[^<\s]|<(?:p|div|strong|span)\b)`)
	ends := regexp.MustCompile(`^\s*\{\{-? ?(?:end|else)[^}]*\}\}`)
	count := 0
	for name, source := range allTemplates(t) {
		for _, rest := range regexp.MustCompile(`\{\{(?:icon|toned) [^}]+\}\}`).Split(source, -1)[1:] {
			count++
			for ends.MatchString(rest) {
				rest = ends.ReplaceAllString(rest, "")
			}
			alternative := rest == "" // another icon follows, of which only one is shown
			if !alternative && !text.MatchString(rest) {
				t.Errorf("%s: no text follows an icon: %.60s", name, rest)
			}
		}
	}
	if count < 20 {
		t.Errorf("got only %d icons", count)
	}
}
