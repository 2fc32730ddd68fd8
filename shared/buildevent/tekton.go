package buildevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/deploy"
)

const (
	tektonPrefix = "dev.tekton.event.pipelinerun."
	tektonSuffix = ".v1"
)

// ErrOther is returned for events that are invalid or not about a build. Sending them again does
// not help.
var ErrOther = errors.New("the event is not about a build")

// Results, as in Tekton Chains. Case does not matter.
const (
	imageResult  = "IMAGE_URL"
	digestResult = "IMAGE_DIGEST"
	commitResult = "COMMIT"
)

// maxMessage limits a run's message, in bytes.
const maxMessage = 1024

// PipelineRun holds the relevant fields of a PipelineRun.
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
		Results         []result    `json:"results"`
		PipelineResults []result    `json:"pipelineResults"` // v1beta1, used by Tekton's events
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

const succeeded = "Succeeded"

type result struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func (r result) text() (string, bool) {
	var text string
	err := json.Unmarshal(r.Value, &text)
	return strings.TrimSpace(text), err == nil
}

// Tekton parses an event about a PipelineRun. It returns [ErrOther] for other events.
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
		return PipelineRun{}, deploy.Run{}, fmt.Errorf("missing run: %w", ErrOther)
	}
	run := p.Run()
	run.Event = kind
	switch kind { // the type describes the run at the time of the event
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

// Run returns the state and results of a PipelineRun.
func (p PipelineRun) Run() deploy.Run {
	run := deploy.Run{UID: p.Metadata.UID}
	for _, c := range p.Status.Conditions {
		if c.Type != succeeded {
			continue
		}
		run.Done, run.OK = c.Status != "Unknown" && c.Status != "", c.Status == "True"
		if !run.OK {
			run.Message = joinReason(c.Reason, c.Message)
		}
	}
	// Values of v1 replace those of v1beta1.
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

func joinReason(reason, message string) string {
	s := strings.ToValidUTF8(strings.Trim(reason+": "+message, ": "), "\uFFFD")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
