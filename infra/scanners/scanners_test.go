// Package scanners_test checks the published scanner rules against the formats of keys and tokens.
package scanners_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/tests/check"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	check.OK(t, err)
	return string(text)
}

var assignment = regexp.MustCompile(`^([A-Za-z]+) = (?:'''(.*)'''|"([^"\\]*)"|(true|\[.*\]))$`)

func gitleaks(t *testing.T) map[string]map[string]string {
	t.Helper()
	rules, rule, table := map[string]map[string]string{}, map[string]string(nil), ""
	for line := range strings.Lines(read(t, "gitleaks.toml")) {
		line = strings.TrimSuffix(line, "\n")
		found := assignment.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			if table = line; line == "[[rules]]" {
				rule = map[string]string{}
			}
		case found == nil:
			t.Fatalf("unsupported line %q", line)
		case table == "[[rules]]":
			rule[found[1]] = found[2] + found[3] + found[4]
			rules[rule["id"]] = rule
		}
	}
	return rules
}

// rules returns the rule of each scanner for keys or service tokens. Its first group is the match.
func rules(t *testing.T, id, keyword string) map[string]*regexp.Regexp {
	t.Helper()
	rule := gitleaks(t)[id]
	if rule["keywords"] != `["`+keyword+`"]` || rule["description"] == "" {
		t.Errorf("gitleaks rule %s: got %v", id, rule)
	}
	var github struct{ Name, SecretFormat, BeforeSecret, AfterSecret string }
	if err := yaml.UnmarshalStrict([]byte(read(t, "github.yaml")), &github); err != nil || github.Name == "" {
		t.Fatal(github, err)
	}
	return map[string]*regexp.Regexp{
		"gitleaks": regexp.MustCompile("(" + rule["regex"] + ")"),
		"GitHub":   regexp.MustCompile("(?:" + github.BeforeSecret + ")(" + github.SecretFormat + ")(?:" + github.AfterSecret + ")"),
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	prefix, err := apikey.NewPrefix(rand.Reader)
	check.OK(t, err)
	full, err := apikey.NewSecret(rand.Reader, prefix)
	check.OK(t, err)
	return string(full)
}

// TestRules checks that each rule finds keys in any context, and no other text (promise L6).
func TestRules(t *testing.T) {
	t.Parallel()
	for name, rule := range rules(t, "sluice-api-key", "sluice_") {
		for range 200 {
			key := newKey(t)
			for _, text := range []string{key, "X-API-Key: " + key + "\n", `{"key":"` + key + `"}`, "KEY='" + key + "';", "https://a.example/?k=" + key + "&x=1", "<b>" + key + "</b>", "a\n" + key + "\nb"} {
				if found := rule.FindStringSubmatch(text); found == nil || found[1] != key {
					t.Errorf("%s: got match %q in %q", name, found, text)
				}
			}
			if found := rule.FindAllStringSubmatch(key+",\n"+key, -1); len(found) != 2 {
				t.Errorf("%s: got matches %q, want 2", name, found)
			}
			for _, text := range []string{
				key[:len(key)-1], key + "A", strings.ToUpper(key), strings.Replace(key, "_", "-", 1), key[:7] + "A" + key[8:], key[:15] + key[16:],
				strings.Replace(key, "sluice_", "sluice_xx_", 1), key[:20] + "-" + key[21:], "sluice_gate_and_more", "",
			} {
				if found := rule.FindString(text); found != "" {
					t.Errorf("%s: got match %q in %q", name, found, text)
				}
			}
		}
	}
}

func TestTokenRules(t *testing.T) {
	t.Parallel()
	for name, rule := range rules(t, "sluice-service-token", "sluice_st_") {
		for range 200 {
			token := newToken(t)
			for _, text := range []string{token, "SLUICE_TOKEN=" + token + "\n", `{"token":"` + token + `"}`, "a\n" + token + "\nb"} {
				if found := rule.FindStringSubmatch(text); found == nil || found[1] != token {
					t.Errorf("%s: got match %q in %q", name, found, text)
				}
			}
			for _, text := range []string{token[:len(token)-1], token + "A", strings.ToUpper(token), token[:14] + "-" + token[15:], "sluice_st_and_more"} {
				if found := rule.FindString(text); found != "" {
					t.Errorf("%s: got match %q in %q", name, found, text)
				}
			}
		}
	}
}

func newToken(t *testing.T) string {
	t.Helper()
	_, full, err := servicetoken.New(rand.Reader, servicetoken.Token{})
	check.OK(t, err)
	return string(full)
}

// TestPage checks the patterns, the checksum table and the Python program of README.md.
func TestPage(t *testing.T) {
	t.Parallel()
	page := read(t, "README.md")
	for _, pattern := range []string{apikey.Pattern, servicetoken.Pattern} {
		if !strings.Contains(page, "```\n"+pattern+"\n```") {
			t.Errorf("README.md lacks the pattern %s", pattern)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `(sluice_[0-9a-z]{8}_[0-9A-Za-z]{32})` \\| `([0-9A-Za-z]{6})` \\|$").FindAllStringSubmatch(page, -1)
	if len(rows) != 2 {
		t.Fatalf("got %d examples, want 2", len(rows))
	}
	for _, row := range rows {
		if _, ok := apikey.Parse([]byte(row[1] + row[2])); !ok {
			t.Errorf("checksum of %s: got %s, which is wrong", row[1], row[2])
		}
	}
	_, program, _ := strings.Cut(page, "```python\n")
	program, _, _ = strings.Cut(program, "```")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	good, token, bad := newKey(t), newToken(t), []byte(newKey(t))
	bad[len(bad)-1] ^= 1
	cmd := exec.CommandContext(t.Context(), python, "-c", program+"\nimport sys\nprint(*keys(sys.stdin.read()), sep='\\n')")
	cmd.Stdin = strings.NewReader("a=" + good + "; b=" + string(bad) + "; c=" + token + ";")
	out, err := cmd.CombinedOutput()
	if err != nil || string(bytes.TrimSpace(out)) != good+"\n"+token {
		t.Errorf("program of README.md: got %s, %v", out, err)
	}
}
