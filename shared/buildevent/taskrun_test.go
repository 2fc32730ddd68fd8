package buildevent

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluicegate/sluice/tests/check"
)

func taskRun(t testing.TB, status string) TaskRun {
	t.Helper()
	var run TaskRun
	check.OK(t, json.Unmarshal([]byte(`{"status":`+status+`}`), &run))
	return run
}

const (
	hasFailed = `"conditions":[{"type":"Succeeded","status":"False","reason":"Failed","message":"\"step-clone\" exited with code 1: Error"}]`
	cloneSaid = `{"name":"clone","terminationReason":"Error","terminated":{"exitCode":1,"reason":"Error"}}`
	buildLeft = `{"name":"build-and-push","terminationReason":"Skipped","terminated":{"exitCode":1,"reason":"Error"}}`
)

func TestFailure(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, status, want string }{
		{
			"a step, and what it said", `{` + hasFailed + `,"steps":[` + cloneSaid + `,` + buildLeft + `],
				"results":[{"name":"COMMIT","value":"abc"},{"name":"ERROR","value":"fatal: no\nBranch x not found.\n"}]}`,
			"step clone exited with 1: fatal: no | Branch x not found.",
		},
		{
			"the second step", `{` + hasFailed + `,"steps":[{"name":"clone","terminated":{"exitCode":0,"reason":"Completed"}},{"name":"build","terminated":{"exitCode":2,"reason":"Error"}}]}`,
			"step build exited with 2",
		},
		{
			"without memory", `{` + hasFailed + `,"steps":[{"name":"build","terminationReason":"Error","terminated":{"exitCode":137,"reason":"OOMKilled"}}]}`,
			"step build exited with 137 (OOMKilled)",
		},
		{
			"too late", `{` + hasFailed + `,"steps":[{"name":"build","terminationReason":"TimeoutExceeded","terminated":{"exitCode":1,"reason":"Error"}}]}`,
			"step build exited with 1 (TimeoutExceeded)",
		},
		{
			"a missing image", `{"conditions":[{"type":"Succeeded","status":"False","reason":"TaskRunImagePullFailed","message":"the step \"clone\" failed to pull the image"}],
				"steps":[{"name":"clone","waiting":{"reason":"ImagePullBackOff"}}]}`,
			`TaskRunImagePullFailed: the step "clone" failed to pull the image`,
		},
		{
			"a list for a text", `{` + hasFailed + `,"steps":[` + cloneSaid + `],"results":[{"name":"ERROR","value":["x"]}]}`,
			"step clone exited with 1",
		},
		{
			"what does not print, and what is secret", `{` + hasFailed + `,"steps":[` + cloneSaid + `],"results":[{"name":"ERROR","value":"a\u001b[31mred\u0000 \u202eb\r\nfrom https://ada:pa@ss@git.example.com/x"}]}`,
			"step clone exited with 1: a [31mred b | from https://[redacted]@git.example.com/x",
		},
		{"success", `{"conditions":[{"type":"Succeeded","status":"True"}],"steps":[` + cloneSaid + `]}`, ""},
		{"not over", `{"conditions":[{"type":"Succeeded","status":"Unknown"}],"steps":[` + cloneSaid + `]}`, ""},
		{"cancelled", `{"conditions":[{"type":"Succeeded","status":"False","reason":"TaskRunCancelled"}],"steps":[` + cloneSaid + `]}`, ""},
		{"nothing", `{}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := taskRun(t, tt.status).Failure(); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestFailureIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"lines": strings.Repeat("äbc\n", 5000) + "the last line", "one line": strings.Repeat("ä", 5000) + "the last line",
	} {
		value, err := json.Marshal(text)
		check.OK(t, err)
		got := taskRun(t, `{`+hasFailed+`,"steps":[`+cloneSaid+`],"results":[{"name":"ERROR","value":`+string(value)+`}]}`).Failure()
		if len(got) > maxMessage+len("…") || !strings.HasSuffix(got, "the last line") || !strings.HasPrefix(got, "step clone exited with 1: … ") {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
	}
}

func FuzzFailure(f *testing.F) {
	f.Add("Failed", "clone", "Error", "fatal: https://a:b@c/d\nx")
	f.Fuzz(func(t *testing.T, reason, name, why, output string) {
		value, err := json.Marshal(output)
		check.OK(t, err)
		var run TaskRun
		run.Status.Conditions = []condition{{Type: succeeded, Status: "False", Reason: reason, Message: output}}
		stepped := run
		stepped.Status.Steps = []step{{Name: name, Reason: why}}
		check.OK(t, json.Unmarshal([]byte(`{"exitCode":1}`), &stepped.Status.Steps[0].Terminated))
		stepped.Status.Results = []result{{Name: errorResult, Value: value}}
		for _, got := range []string{run.Failure(), stepped.Failure()} {
			if len(got) > maxMessage+len("…") || !utf8.ValidString(got) {
				t.Errorf("%d bytes: %q", len(got), got)
			}
		}
		if i := strings.IndexFunc(printableLine(output), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is not printable", printableLine(output))
		}
	})
}
