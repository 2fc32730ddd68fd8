package tekton

import (
	"crypto/sha1" //nolint:gosec // as git names commits
	"crypto/sha256"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	annotation = "emulator.sluice.dev/build"
	segment    = "emulate-"

	slowness = 20
)

// Script controls a run. Each word sets one field.
type Script struct {
	Slow      bool // "slow": 20 times longer
	Held      bool // "held": until cancelled or deleted
	Fail      bool // "fail": the second step fails
	Timeout   bool // "timeout": the run times out
	Broken    bool // "broken": the image never becomes ready
	NoImage   bool // "noimage": the run succeeds without results
	NoDigest  bool // "nodigest": the results lack the digest
	NoCommit  bool // "nocommit": the results lack the commit
	Misbuilt  bool // "misbuilt": another commit than requested
	Twice     bool // "twice": sends every event twice
	Reordered bool // "reordered": the last event first, then the others in reverse order
	Silent    bool // "silent": sends no events
	V1        bool // "v1": events have v1's status.results
}

func scriptOf(run *unstructured.Unstructured) Script {
	words := run.GetAnnotations()[annotation]
	if words == "" {
		words = wordsOf(param(run, "repository"))
	}
	var s Script
	known := map[string]*bool{
		"slow": &s.Slow, "held": &s.Held, "fail": &s.Fail, "timeout": &s.Timeout, "broken": &s.Broken, "noimage": &s.NoImage,
		"nodigest": &s.NoDigest, "nocommit": &s.NoCommit, "misbuilt": &s.Misbuilt, "twice": &s.Twice,
		"reordered": &s.Reordered, "silent": &s.Silent, "v1": &s.V1,
	}
	for w := range strings.SplitSeq(words, "-") {
		if is := known[w]; is != nil {
			*is = true
		}
	}
	return s
}

func (s Script) takes(usual time.Duration) time.Duration {
	switch {
	case s.Held:
		return math.MaxInt64
	case s.Slow:
		return slowness * usual
	}
	return usual
}

func wordsOf(repository string) string {
	u, err := url.Parse(repository)
	if err != nil {
		return ""
	}
	for _, part := range strings.Split(u.Path, "/") {
		if words, ok := strings.CutPrefix(part, segment); ok {
			return words
		}
	}
	return ""
}

// param returns "" if the parameter is not set.
func param(run *unstructured.Unstructured, name string) string {
	params, _, err := unstructured.NestedSlice(run.Object, "spec", "params")
	if err != nil {
		return ""
	}
	for _, one := range params {
		if p, ok := one.(map[string]any); ok && p["name"] == name {
			value, _ := p["value"].(string)
			return value
		}
	}
	return ""
}

func ending(run *unstructured.Unstructured, s Script, cancelled bool) status {
	switch {
	case cancelled:
		return status{done: true, reason: "Cancelled", message: fmt.Sprintf("PipelineRun %q was cancelled", run.GetName())}
	case s.Timeout:
		return status{done: true, reason: "PipelineRunTimeout", message: fmt.Sprintf("PipelineRun %q failed to finish within its timeout", run.GetName())}
	case s.Fail:
		return status{done: true, reason: "Failed", message: "Tasks Completed: 1 (Failed: 1, Cancelled 0), Skipped: 0"}
	}
	end := status{done: true, ok: true, reason: "Succeeded", message: "Tasks Completed: 1 (Failed: 0, Cancelled 0), Skipped: 0"}
	if s.NoImage {
		return end
	}
	image := param(run, "image")
	if s.Broken {
		image = image[:strings.LastIndex(image, ":")+1] + "broken"
	}
	end.results = []any{text("IMAGE_URL", image)}
	if !s.NoDigest {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(image+string(run.GetUID()))))
		end.results = append(end.results, text("IMAGE_DIGEST", digest))
	}
	if !s.NoCommit {
		end.results = append(end.results, text("COMMIT", commitOf(run, s)))
	}
	return end
}

// commitOf returns the full hash of the requested commit, extended if it is abbreviated, or of
// the branch's head.
func commitOf(run *unstructured.Unstructured, s Script) string {
	requested := param(run, "commit")
	if s.Misbuilt {
		requested = ""
	}
	madeUp := fmt.Sprintf("%x", sha1.Sum([]byte(param(run, "repository")+" "+param(run, "branch")))) //nolint:gosec // as git names commits
	return requested + madeUp[min(len(requested), len(madeUp)):]
}
