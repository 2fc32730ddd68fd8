package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/tests/check"
)

const (
	secretInJSON = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"
	copyKey      = "Copy this key now. It is shown only once and cannot be recovered.\n"
)

func TestJQ(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		args       string
		expression string
		want       result
	}{
		{"text", "key list", `.items[] | select(.status == "active") | .id`, result{0, "key-ab12cd34\n", ""}},
		{"numbers, truth and nothing", "plan list", `.items[0] | .rate, .burst, .quota == 1000, .nosuch`, result{0, "0.5\n5\ntrue\nnull\n", ""}},
		{"objects", "key list", `.items[0] | {id, apps}`, result{0, `{"apps":["hello","site"],"id":"key-ab12cd34"}` + "\n", ""}},
		{"no result", "key list", `.items[] | select(.plan == "plan-gone")`, result{0, "", ""}},
		{"a table", "key list", `.items[] | [.id, .name] | @tsv`, result{0, "key-ab12cd34\tCheckout team\nkey-zz99yy88\t\n", ""}},
		{"with -o json", "key list -o json", `.items | length`, result{0, "2\n", ""}},
		{"a number that is not a float64", "version", `9007199254740993`, result{0, "9007199254740993\n", ""}},
		{"a full key", "key create --plan plan-starter", `.key`, result{0, secretInJSON + "\n", copyKey + "Accepted by both checkers after 38 ms.\n"}},
		{"a secret in an error", "key create --plan plan-starter", `.key[]`, result{1, "", copyKey + "error: --jq: cannot iterate over: string (\"…\") (jq_failed)\n"}},
		{"a full token", "token create nightly --role developer", `.token | length`, result{0, "63\n", "Copy this token now. It is shown only once and cannot be recovered.\n"}},
		{"a change without a response body", "member remove bob --yes", `.`, result{0, "", ""}},
		{"no environment", "version", `env, $ENV, env.HOME`, result{0, "{}\n{}\nnull\n", ""}},
		{"halt", "version", `.version, halt, .go`, result{0, "v1.2.3\n", ""}},
		{"error", "version", `error("no such version")`, result{1, "", "error: --jq: no such version (jq_failed)\n"}},
		{"results before an error", "version", `.version, .version[]`, result{1, "v1.2.3\n", "error: --jq: cannot iterate over: string (\"…\") (jq_failed)\n"}},
		{"an error over several values", "version", `{a: .version} + 1`, result{1, "", "error: --jq: cannot add: object ({\"…\":\"…\"}) and number (1) (jq_failed)\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shop())
			got := newPerson(t, f.URL).runs(append(strings.Fields(tt.args), "--jq", tt.expression)...)
			if got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestJQRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, expression, want string }{
		{"a wrong character", "key list", ".items]", `--jq: unexpected token "]" at character 7`},
		{"characters, not bytes", "key list", `"ü" ]`, `--jq: unexpected token "]" at character 5`},
		{"an end too early", "key list", ".items | ", "--jq: unexpected end of the expression after character 8"},
		{"a text without an end", "key list", `"abc`, "--jq: unexpected end of the expression after character 4"},
		{"an unknown function", "key list", ".items | nosuch", "--jq: function not defined: nosuch/0"},
		{"an unknown variable", "key list", "$x", "--jq: variable not defined: $x"},
		{"a module", "key list", `import "a" as a; .`, `--jq: cannot load module: "a"`},
		{"more input", "key list", "input", "--jq: input(s)/0 is not allowed"},
		{"an empty expression", "key list", "", "--jq is empty"},
		{"a table", "key list -o table", ".", "--jq needs JSON output: omit --output or pass -o json"},
		{"YAML", "key list -o yaml", ".", "--jq needs JSON output: omit --output or pass -o json"},
		{"--quiet", "key create --plan plan-starter --quiet", ".", "--quiet and --jq cannot be used together"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shop())
			got := newPerson(t, f.URL).runs(append(strings.Fields(tt.args), "--jq", tt.expression)...)
			if want := (result{2, "", "error: " + tt.want + " (usage)\n"}); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if sent := f.requests(); len(sent) > 0 {
				t.Errorf("got requests %q, want none", sent)
			}
		})
	}
}

func TestJQEverywhere(t *testing.T) {
	t.Parallel()
	for _, tt := range everyCommand {
		if tt.name == "completion" || tt.file || strings.Contains(tt.args, "--quiet") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := func(more ...string) (result, any) {
				f := newFake(t, shop())
				p := newPerson(t, f.URL)
				p.stdin = tt.stdin
				r := p.runs(append(split(tt.args, f.URL), more...)...)
				r.out = strings.ReplaceAll(strings.ReplaceAll(r.out, f.URL, "URL"), host(f), "HOST")
				r.err = strings.ReplaceAll(r.err, f.URL, "URL")
				var v any
				if r.out != "" {
					p.must(json.Unmarshal([]byte(r.out), &v))
				}
				return r, v
			}
			plain, want := runs("-o", "json")
			filtered, got := runs("--jq", ".")
			if diff := cmp.Diff(want, got); diff != "" || filtered.exit != plain.exit || filtered.err != plain.err {
				t.Errorf("-o json and --jq differ (-json +jq):\n%s\n%s%s", diff, plain, filtered)
			}
			if strings.Count(filtered.out, "\n") > 1 {
				t.Errorf("got %q, want one line", filtered.out)
			}
		})
	}
}

func TestJQOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPerson(t, "")
	p.width = 60
	got := p.runs("version", "--jq", `{a: [1]}, "a\tb\nc\u001b[2Kd\u202e"`)
	if want := (result{0, "{\n  \"a\": [\n    1\n  ]\n}\na\tb\nc\ufffd[2Kd\ufffd\n", ""}); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestJQInterrupted(t *testing.T) {
	t.Parallel()
	for _, endless := range []string{"def f: f; f", "[repeat(1)]", "last(range(infinite))"} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		got := newPerson(t, "").runsIn(ctx, "version", "--jq", endless)
		if want := (result{130, "", "error: Interrupted. (interrupted)\n"}); got != want {
			t.Errorf("%s: got %swant %s", endless, got, want)
		}
	}
}

func TestJQExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	check.OK(t, err)
	text := string(readme)
	walk(Root(), func(cmd *cobra.Command) { text += cmd.Example + "\n" })
	examples := regexp.MustCompile(`sluice ([a-z ]+) --jq '([^'\n]+)'`).FindAllStringSubmatch(text, -1)
	if len(examples) < 4 {
		t.Errorf("got %d examples, want at least 4", len(examples))
	}
	for _, e := range examples {
		f := newFake(t, shop())
		if got := newPerson(t, f.URL).runs(append(strings.Fields(e[1]), "--jq", e[2])...); got.exit != 0 || got.err != "" {
			t.Errorf("%s: got %s", e[0], got)
		}
	}
}
