package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/tests/check"
)

const (
	phrases     = "scripts/vale/styles/Sluice/Phrases.yml"
	maxSentence = 35 // words
)

// TestProse applies the rules of Vale to the texts that Vale does not read: string literals in Go,
// YAML, shell scripts and makefiles, and sentences in HTML templates.
func TestProse(t *testing.T) {
	t.Parallel()
	files := trackedFiles(t)
	var list struct {
		Swap map[string]string `json:"swap"`
	}
	check.OK(t, yaml.Unmarshal([]byte(files[phrases]), &list))
	delete(files, phrases)
	rules := map[*regexp.Regexp]string{}
	for pattern, replacement := range list.Swap {
		rules[regexp.MustCompile("(?i)"+pattern)] = replacement
	}
	if len(rules) < 50 {
		t.Fatalf("%s: got %d phrases, want 50 or more", phrases, len(rules))
	}
	for name, text := range files {
		for _, s := range texts(t, name, text) {
			for _, sentence := range sentenceEnd.Split(s.text, -1) {
				if n := len(strings.Fields(sentence)); n > maxSentence {
					t.Errorf("%s:%d: sentence of %d words, want at most %d: %s", name, s.line, n, maxSentence, sentence)
				}
			}
			for rule, replacement := range rules {
				if found := rule.FindString(s.text); found != "" {
					t.Errorf("%s:%d: replace %q: %s", name, s.line, found, replacement)
				}
			}
		}
	}
}

// passage is a text in a file.
type passage struct {
	line int
	text string
}

var (
	markup      = regexp.MustCompile(`(?s)<[^>]*>|\{\{.*?\}\}`)
	sentenceEnd = regexp.MustCompile(`[.!?:;]["')\]]*\s+|\n\s*\n`)
)

func texts(t *testing.T, name, content string) (found []passage) {
	t.Helper()
	switch ext := path.Ext(name); {
	case ext == ".go":
		return literals(t, name, content)
	case ext == ".html":
		start := 0
		for _, tag := range append(markup.FindAllStringIndex(content, -1), []int{len(content), len(content)}) {
			line := 1 + strings.Count(content[:start], "\n")
			found = append(found, passage{line, strings.Join(strings.Fields(content[start:tag[0]]), " ")})
			start = tag[1]
		}
	case ext == ".yaml", ext == ".yml", ext == ".sh", path.Base(name) == "Makefile", name == ".ci/run":
		for i, line := range strings.Split(content, "\n") {
			found = append(found, passage{i + 1, strings.TrimLeft(line, "# \t")})
		}
	}
	return found
}

// literals returns the string literals of a Go file that contain a space.
func literals(t *testing.T, name, content string) (found []passage) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
	check.OK(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && strings.Contains(s, " ") {
				found = append(found, passage{set.Position(l.Pos()).Line, strings.Join(strings.Fields(s), " ")})
			}
		}
		return true
	})
	return found
}
