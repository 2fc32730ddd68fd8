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
	testLink = regexp.MustCompile("^\\[`((?:Test|Fuzz)\\w+)(?:/[^`]+)?`\\]\\(([^)]+)\\)$")
	citation = regexp.MustCompile(`\bpromises?[\s/#]+[A-Z][0-9]+(?:(?:,|[\s/#]+(?:to|and))[\s/#]+[A-Z][0-9]+)*`)
	number   = regexp.MustCompile(`[A-Z][0-9]+`)
	outside  = regexp.MustCompile(`(?i)\b(?:specification|decisions|architecture)[\s/#]+sections?[\s/#]+[0-9]|\.\./shared/(?:spec|design)\b`)
)

const promisesPage = "tests/README.md"

// promiseNumbers returns the numbers of the promises, such as K4. The numbers with the same
// letter must be consecutive, and so must the additional bounds of a promise (K4b, K4c).
func promiseNumbers(t *testing.T, page string) map[string]bool {
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
		t.Fatalf("number of promises in %s: got %d, want at least 50", promisesPage, len(numbers))
	}
	return numbers
}

func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	files := trackedFiles(t, "*_test.go")
	page := trackedFiles(t, promisesPage)[promisesPage]
	promiseNumbers(t, page)
	for _, m := range promise.FindAllStringSubmatch(page, -1) {
		for test := range strings.SplitSeq(m[5], ", ") {
			h := testLink.FindStringSubmatch(test)
			if h == nil {
				t.Errorf("promise %s%s%s: %q is not a link to a test", m[1], m[2], m[3], test)
				continue
			}
			file := filepath.Join(filepath.Dir(promisesPage), h[2])
			if !strings.Contains(files[file], "\nfunc "+h[1]+"(") {
				t.Errorf("promise %s%s%s: test %s is not in %s", m[1], m[2], m[3], h[1], file)
			}
		}
	}
}

// TestCitedPromisesExist also checks that no file cites a document outside the repository.
func TestCitedPromisesExist(t *testing.T) {
	t.Parallel()
	files := trackedFiles(t, "*.go", "*.md", "*.yaml", "*.yml", "Makefile")
	numbers, seen := promiseNumbers(t, files[promisesPage]), 0
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
