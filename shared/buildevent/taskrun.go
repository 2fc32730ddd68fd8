package buildevent

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// errorResult is the result of the Task that holds what its failing step wrote last:
// the logs of pods, which have the rest, are not for the functions to read. Tekton keeps
// results of a TaskRun that has failed too.
const errorResult = "ERROR"

// maxOutput bounds what is quoted of a step's output, in bytes: its end.
const maxOutput = 768

// TaskRun is what is read of one in the cluster (tekton.dev/v1): which of its steps has
// failed, and what that wrote last.
type TaskRun struct {
	Status struct {
		Conditions []condition `json:"conditions"`
		Steps      []step      `json:"steps"` // in the order in which they ran
		Results    []result    `json:"results"`
	} `json:"status"`
}

// step is a step of a TaskRun. The ones after a failure have "failed" as well, with the
// reason "Skipped".
type step struct {
	Name       string `json:"name"`
	Reason     string `json:"terminationReason"` // Tekton's own, e.g. "TimeoutExceeded"
	Terminated *struct {
		ExitCode int    `json:"exitCode"`
		Reason   string `json:"reason"` // the runtime's, e.g. "OOMKilled"
	} `json:"terminated"` // nil while it runs, or when it never did
}

// Failure says what has failed in a TaskRun, in one line and at most about 1 KiB, e.g.
// "step build-and-push exited with 1: ERROR: failed to solve: …". Where no step has,
// it is what the TaskRun says itself: an image that cannot be pulled, for example. It is
// "" for a TaskRun that has not failed, or that somebody has cancelled.
func (t TaskRun) Failure() string {
	failed, ok := t.failed()
	if !ok {
		return ""
	}
	for _, s := range t.Status.Steps {
		if s.Terminated != nil && s.Terminated.ExitCode != 0 && s.Reason != "Skipped" {
			return saying(s.ending(), t.lastLines())
		}
	}
	return saying(failed.Reason, printed(failed.Message))
}

// failed gives the condition of a TaskRun that has failed by itself.
func (t TaskRun) failed() (condition, bool) {
	for _, c := range t.Status.Conditions {
		if c.Type == succeeded {
			return c, c.Status == "False" && c.Reason != "TaskRunCancelled"
		}
	}
	return condition{}, false
}

// ending tells how a step has failed, e.g. "step clone exited with 137 (OOMKilled)".
func (s step) ending() string {
	text := fmt.Sprintf("step %.63s exited with %d", printed(s.Name), s.Terminated.ExitCode)
	for _, why := range []string{s.Reason, s.Terminated.Reason} {
		if why != "" && why != "Error" { // which every failure is
			return fmt.Sprintf("%s (%.63s)", text, printed(why))
		}
	}
	return text
}

// lastLines is what the failing step wrote last, as one line.
func (t TaskRun) lastLines() string {
	for _, r := range t.Status.Results {
		if text, ok := r.text(); ok && r.Name == errorResult {
			return tail(printed(text))
		}
	}
	return ""
}

// tail is the end of a long text as [printed] gives it, from the beginning of a line if
// there is one.
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

// newLine stands between the lines of what is put in one.
const newLine = " | "

// inURL is the credentials of a URL. The shipped Pipeline takes them out before; another
// one may not.
var inURL = regexp.MustCompile(`://[^/\s]*@`)

// printed puts the lines of a text in one, with [newLine] between them, without what does not
// print, and without the credentials of URLs: it comes from a customer's repository, and
// is shown to people.
func printed(text string) string {
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
	return inURL.ReplaceAllString(strings.Join(lines, newLine), "://[redacted]@")
}
