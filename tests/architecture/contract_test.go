package architecture

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	promise  = regexp.MustCompile(`(?m)^\| ([A-Z])([0-9]+) \| (.+) \| ([^|]+) \|$`)
	holder   = regexp.MustCompile("^\\[`((?:Test|Fuzz)\\w+)(?:/[^`]+)?`\\]\\(([^)]+)\\)$")
	citation = regexp.MustCompile(`\bpromises?[\s/#]+[A-Z][0-9]+(?:(?:,|[\s/#]+(?:to|and))[\s/#]+[A-Z][0-9]+)*`)
	number   = regexp.MustCompile(`[A-Z][0-9]+`)
	outside  = regexp.MustCompile(`(?i)\b(?:specification|decisions|architecture)[\s/#]+sections?[\s/#]+[0-9]|\.\./shared/(?:spec|design)\b`)
)

const contract = "tests/README.md"

// promises gives the numbers of the contract, each of which is one more than the one of
// its letter before it.
func promises(t *testing.T, page string) map[string]bool {
	t.Helper()
	numbers, last := map[string]bool{}, map[string]int{}
	for _, m := range promise.FindAllStringSubmatch(page, -1) {
		last[m[1]]++
		if m[2] != strconv.Itoa(last[m[1]]) {
			t.Errorf("%s%s stands where %s%d belongs", m[1], m[2], m[1], last[m[1]])
		}
		numbers[m[1]+m[2]] = true
	}
	if len(numbers) < 50 {
		t.Fatalf("%s has only %d promises", contract, len(numbers))
	}
	return numbers
}

// TestPromises: each is held by tests, and they are where the page says.
func TestPromises(t *testing.T) {
	t.Parallel()
	files := kept(t, "*_test.go")
	page := kept(t, contract)[contract]
	promises(t, page)
	for _, m := range promise.FindAllStringSubmatch(page, -1) {
		for test := range strings.SplitSeq(m[4], ", ") {
			h := holder.FindStringSubmatch(test)
			if h == nil {
				t.Errorf("%s%s is held by %q, which is no test", m[1], m[2], test)
				continue
			}
			file := filepath.Join(filepath.Dir(contract), h[2])
			if !strings.Contains(files[file], "\nfunc "+h[1]+"(") {
				t.Errorf("%s%s is held by %s, which is not in %s", m[1], m[2], h[1], file)
			}
		}
	}
}

// TestCitations: what comments and pages cite is on the page of the contract, and nothing
// outside of the repository.
func TestCitations(t *testing.T) {
	t.Parallel()
	files := kept(t, "*.go", "*.md", "*.yaml", "*.yml", "Makefile")
	numbers, seen := promises(t, files[contract]), 0
	for name, text := range files {
		for _, c := range citation.FindAllString(text, -1) {
			for _, n := range number.FindAllString(c, -1) {
				if seen++; !numbers[n] {
					t.Errorf("%s cites promise %s, which there is not", name, n)
				}
			}
		}
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s cites what is not in the repository: %q", name, found)
		}
	}
	if seen < 30 {
		t.Errorf("only %d citations were found", seen)
	}
}
