package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`(?:\]\(|\b(?:src|srcset)=")([^)\s"]+)[)"]`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	span    = regexp.MustCompile("`[^`\n]*`")
	place   = regexp.MustCompile("`((?:functions|shared|infra|emulators|scripts|tests)/[^` ]*)`")
)

// kept gives the text of every file that is kept, or of those with such names, by path.
func kept(t *testing.T, names ...string) map[string]string {
	t.Helper()
	args := append([]string{"-C", root, "ls-files", "-z", "--"}, names...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Skipf("no git checkout: %v", err)
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted in the working tree
		}
		all[name] = string(text)
	}
	return all
}

// pages gives every Markdown file that is kept, by its path, without what stands in fences.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := kept(t, "*.md")
	for name, text := range all {
		all[name] = fence.ReplaceAllString(text, "")
	}
	if all["README.md"] == "" {
		t.Fatal("there is no README.md")
	}
	return all
}

// TestLinks: what a page links to is there, down to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], ":") {
				continue // leads out of the repository
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || !filepath.IsLocal(file) {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
			if anchor != "" && !hasHeading(all[file], anchor) {
				t.Errorf("%s links to %s, but there is no such heading", name, m[1])
			}
		}
	}
}

// hasHeading tells whether a page has a heading with an anchor, as Git hosts make them.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestPlaces: the files and folders that a page names are there.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			if found, err := filepath.Glob(filepath.Join(root, m[1])); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}
