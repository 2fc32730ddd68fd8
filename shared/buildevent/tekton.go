package buildevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/deploy"
)

// Tekton's types of events about PipelineRuns are this, a name and ".v1".
const (
	tektonPrefix = "dev.tekton.event.pipelinerun."
	tektonSuffix = ".v1"
)

// ErrOther is the error of events that tell nothing about a build: of another type,
// about another run, or not readable. No repetition helps with those.
var ErrOther = errors.New("the event is not about a build")

// The names of results that say what a run has built, as Tekton Chains has them
// too, in any case.
const (
	imageResult  = "IMAGE_URL"
	digestResult = "IMAGE_DIGEST"
	commitResult = "COMMIT"
)

// maxMessage bounds a run's message, in bytes: it goes into a document.
const maxMessage = 1024

// PipelineRun is what is read of one: in an event's data, and in the cluster.
type PipelineRun struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		Conditions      []condition `json:"conditions"`
		Results         []result    `json:"results"`         // v1
		PipelineResults []result    `json:"pipelineResults"` // v1beta1, which Tekton's events still have
	} `json:"status"`
}

// condition is what a run of either kind says about itself.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// succeeded is the type of the one condition that counts.
const succeeded = "Succeeded"

// result is a result of a run. Only text counts; a list or an object stays unread.
type result struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// text is a result's value without the space around it; false where it is no text.
func (r result) text() (string, bool) {
	var text string
	err := json.Unmarshal(r.Value, &text)
	return strings.TrimSpace(text), err == nil
}

// Tekton reads an event about a PipelineRun. Error: [ErrOther].
func Tekton(e cloudevents.Event) (PipelineRun, deploy.Run, error) {
	kind, ok := strings.CutPrefix(e.Type(), tektonPrefix)
	if kind, ok2 := strings.CutSuffix(kind, tektonSuffix); ok && ok2 {
		return tekton(kind, e.Data())
	}
	return PipelineRun{}, deploy.Run{}, fmt.Errorf("type %q: %w", e.Type(), ErrOther)
}

func tekton(kind string, data []byte) (PipelineRun, deploy.Run, error) {
	var body struct {
		PipelineRun PipelineRun `json:"pipelineRun"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return PipelineRun{}, deploy.Run{}, fmt.Errorf("%w: %w", ErrOther, err)
	}
	p := body.PipelineRun
	if p.Metadata.Name == "" || p.Metadata.Namespace == "" || p.Metadata.UID == "" {
		return PipelineRun{}, deploy.Run{}, fmt.Errorf("it names no run: %w", ErrOther)
	}
	run := p.Run()
	run.Event = kind
	switch kind { // the type says what the run was when it was sent
	case "started", "running":
		run.Done, run.OK = false, false
	case "successful":
		run.Done, run.OK = true, true
	case "failed":
		run.Done, run.OK = true, false
	default:
		return PipelineRun{}, deploy.Run{}, fmt.Errorf("type %q: %w", kind, ErrOther)
	}
	return p, run, nil
}

// Run is what a PipelineRun says about itself.
func (p PipelineRun) Run() deploy.Run {
	run := deploy.Run{UID: p.Metadata.UID}
	for _, c := range p.Status.Conditions {
		if c.Type != succeeded {
			continue
		}
		run.Done, run.OK = c.Status != "Unknown" && c.Status != "", c.Status == "True"
		if !run.OK {
			run.Message = saying(c.Reason, c.Message)
		}
	}
	// v1 wins where a run has both.
	for _, r := range append(append([]result(nil), p.Status.PipelineResults...), p.Status.Results...) {
		text, ok := r.text()
		if !ok {
			continue
		}
		switch strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) {
		case imageResult:
			run.Image = text
		case digestResult:
			run.Digest = text
		case commitResult:
			run.Commit = strings.ToLower(text)
		}
	}
	return run
}

// saying joins a condition's reason, such as "PipelineRunTimeout" or "Cancelled", and
// its message.
func saying(reason, message string) string {
	s := strings.ToValidUTF8(strings.Trim(reason+": "+message, ": "), "\uFFFD")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
