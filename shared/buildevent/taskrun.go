package buildevent

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// errorResult is the result with the last output of the failing step. Sluice cannot read pod
// logs.
const errorResult = "ERROR"

// maxOutput limits the quoted output, in bytes.
const maxOutput = 768

// TaskRun holds the relevant fields of a TaskRun (tekton.dev/v1).
type TaskRun struct {
	Status struct {
		Conditions []condition `json:"conditions"`
		Steps      []step      `json:"steps"` // in execution order
		Results    []result    `json:"results"`
	} `json:"status"`
}

// step is a step of a TaskRun. Steps after a failed one have the reason "Skipped".
type step struct {
	Name       string `json:"name"`
	Reason     string `json:"terminationReason"` // from Tekton, e.g. "TimeoutExceeded"
	Terminated *struct {
		ExitCode int    `json:"exitCode"`
		Reason   string `json:"reason"` // e.g. "OOMKilled"
	} `json:"terminated"` // nil while it runs, or if it never ran
}

// Failure describes the failure of a TaskRun in one line of at most about 1 KiB, e.g. "step
// build-and-push exited with 1: ERROR: failed to solve: …". If no step failed, it returns the
// TaskRun's message. It returns "" if the TaskRun did not fail or was canceled.
func (t TaskRun) Failure() string {
	failed, ok := t.failed()
	if !ok {
		return ""
	}
	for _, s := range t.Status.Steps {
		if s.Terminated != nil && s.Terminated.ExitCode != 0 && s.Reason != "Skipped" {
			return joinReason(s.describe(), t.lastLines())
		}
	}
	return joinReason(failed.Reason, printableLine(failed.Message))
}

func (t TaskRun) failed() (condition, bool) {
	for _, c := range t.Status.Conditions {
		if c.Type == succeeded {
			return c, c.Status == "False" && c.Reason != "TaskRunCancelled"
		}
	}
	return condition{}, false
}

func (s step) describe() string {
	text := fmt.Sprintf("step %.63s exited with %d", printableLine(s.Name), s.Terminated.ExitCode)
	for _, why := range []string{s.Reason, s.Terminated.Reason} {
		if why != "" && why != "Error" { // "Error" adds no information
			return fmt.Sprintf("%s (%.63s)", text, printableLine(why))
		}
	}
	return text
}

func (t TaskRun) lastLines() string {
	for _, r := range t.Status.Results {
		if text, ok := r.text(); ok && r.Name == errorResult {
			return tail(printableLine(text))
		}
	}
	return ""
}

// tail returns the end of a long text, starting with a whole line if possible.
func tail(text string) string {
	if len(text) <= maxOutput {
		return text
	}
	text = text[len(text)-maxOutput:]
	if _, rest, ok := strings.Cut(text, newLine); ok {
		text = rest
	}
	return "… " + strings.ToValidUTF8(text, "")
}

const newLine = " | "

// urlCredentials matches credentials in URLs. The shipped Pipeline removes them; others may not.
var urlCredentials = regexp.MustCompile(`://[^/\s]*@`)

// printableLine joins lines, and removes nonprintable characters and credentials: the text comes
// from a customer's repository.
func printableLine(text string) string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line)
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return urlCredentials.ReplaceAllString(strings.Join(lines, newLine), "://[redacted]@")
}
