package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
)

var (
	link    = regexp.MustCompile(`(?:\]\(|\b(?:src|srcset)=")([^)\s"]+)[)"]`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	span    = regexp.MustCompile("`[^`\n]*`")
	place   = regexp.MustCompile("`((?:functions|shared|infra|emulators|scripts|tests)/[^` ]*)`")
)

// trackedFiles returns the text of the files in git that match names, or of all files, by path.
func trackedFiles(t *testing.T, names ...string) map[string]string {
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

// markdownFiles returns the Markdown files in git, by path, without fenced code.
func markdownFiles(t *testing.T) map[string]string {
	t.Helper()
	all := trackedFiles(t, "*.md")
	for name, text := range all {
		all[name] = fence.ReplaceAllString(text, "")
	}
	if all["README.md"] == "" {
		t.Fatal("no README.md")
	}
	return all
}

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	all := markdownFiles(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], ":") {
				continue // outside the repository
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || !filepath.IsLocal(file) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
			if anchor != "" && !hasHeading(all[file], anchor) {
				t.Errorf("%s links to %s, but the page has no such heading", name, m[1])
			}
		}
	}
}

// hasHeading reports whether a page has a heading with an anchor, as Git hosts form it.
func hasHeading(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

func TestWebhookGuideListsHeaders(t *testing.T) {
	t.Parallel()
	page := trackedFiles(t, "infra/webhook.md")["infra/webhook.md"]
	for _, name := range append([]string{"Content-Type"}, api.CallWebhook.Headers...) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("infra/webhook.md does not list the header %s", name)
		}
	}
	if address := "POST {base_url}" + api.CallWebhook.Path; !strings.Contains(page, address) {
		t.Errorf("infra/webhook.md does not contain %s", address)
	}
}

func TestNamedPathsExist(t *testing.T) {
	t.Parallel()
	for name, text := range markdownFiles(t) {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			if found, err := filepath.Glob(filepath.Join(root, m[1])); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
}
