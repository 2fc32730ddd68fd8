package architecture

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	promise  = regexp.MustCompile(`(?m)^\| ([A-Z])([0-9]+)([a-z]?) \| (.+) \| ([^|]+) \|$`)
	holder   = regexp.MustCompile("^\\[`((?:Test|Fuzz)\\w+)(?:/[^`]+)?`\\]\\(([^)]+)\\)$")
	citation = regexp.MustCompile(`\bpromises?[\s/#]+[A-Z][0-9]+(?:(?:,|[\s/#]+(?:to|and))[\s/#]+[A-Z][0-9]+)*`)
	number   = regexp.MustCompile(`[A-Z][0-9]+`)
	outside  = regexp.MustCompile(`(?i)\b(?:specification|decisions|architecture)[\s/#]+sections?[\s/#]+[0-9]|\.\./shared/(?:spec|design)\b`)
)

const contract = "tests/README.md"

// promises returns the numbers of the promises. It reports an error if the numbers of a letter
// are not consecutive, or the further bounds of a promise (K4b, K4c) are not.
func promises(t *testing.T, page string) map[string]bool {
	t.Helper()
	numbers, last, bound := map[string]bool{}, map[string]int{}, byte('a')
	for _, m := range promise.FindAllStringSubmatch(page, -1) {
		if m[3] == "" {
			last[m[1]]++
			bound = 'a'
		} else {
			bound++
		}
		want := m[1] + strconv.Itoa(last[m[1]])
		if bound > 'a' {
			want += string(bound)
		}
		if got := m[1] + m[2] + m[3]; got != want {
			t.Errorf("number of a promise: got %s, want %s", got, want)
		}
		numbers[m[1]+m[2]] = true
	}
	if len(numbers) < 50 {
		t.Fatalf("number of promises in %s: got %d, want at least 50", contract, len(numbers))
	}
	return numbers
}

// TestPromises checks that each promise names tests, and that the linked files contain them.
func TestPromises(t *testing.T) {
	t.Parallel()
	files := kept(t, "*_test.go")
	page := kept(t, contract)[contract]
	promises(t, page)
	for _, m := range promise.FindAllStringSubmatch(page, -1) {
		for test := range strings.SplitSeq(m[5], ", ") {
			h := holder.FindStringSubmatch(test)
			if h == nil {
				t.Errorf("promise %s%s%s: %q is not a link to a test", m[1], m[2], m[3], test)
				continue
			}
			file := filepath.Join(filepath.Dir(contract), h[2])
			if !strings.Contains(files[file], "\nfunc "+h[1]+"(") {
				t.Errorf("promise %s%s%s: test %s is not in %s", m[1], m[2], m[3], h[1], file)
			}
		}
	}
}

// TestCitations checks that comments and pages cite only existing promises, and nothing outside
// the repository.
func TestCitations(t *testing.T) {
	t.Parallel()
	files := kept(t, "*.go", "*.md", "*.yaml", "*.yml", "Makefile")
	numbers, seen := promises(t, files[contract]), 0
	for name, text := range files {
		for _, c := range citation.FindAllString(text, -1) {
			for _, n := range number.FindAllString(c, -1) {
				if seen++; !numbers[n] {
					t.Errorf("%s cites promise %s, which does not exist", name, n)
				}
			}
		}
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s cites a text outside the repository: %q", name, found)
		}
	}
	if seen < 30 {
		t.Errorf("number of citations: got %d, want at least 30", seen)
	}
}
