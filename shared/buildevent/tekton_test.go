package buildevent

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/tests/check"
)

func tektonEvent(t testing.TB, kind, data string) cloudevents.Event {
	t.Helper()
	e := cloudevents.NewEvent()
	e.SetType(kind)
	check.OK(t, e.SetData(cloudevents.ApplicationJSON, []byte(data)))
	return e
}

const meta = `"metadata":{"name":"hello-build-1","namespace":"shop-prod","uid":"u1"}`

func TestTekton(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, data string
		want             deploy.Run
	}{
		{"started", "started", `{"pipelineRun":{` + meta + `}}`, deploy.Run{UID: "u1", Event: "started"}},
		{
			"v1 results", "successful",
			`{"pipelineRun":{` + meta + `,"status":{"conditions":[{"type":"Succeeded","status":"True"}],"results":[
				{"name":"IMAGE_URL","value":"r/hello:v1\n"},{"name":"IMAGE_DIGEST","value":"sha256:1"},{"name":"commit","value":"abc"},{"name":"list","value":["x"]}]}}}`,
			deploy.Run{UID: "u1", Event: "successful", Done: true, OK: true, Image: "r/hello:v1", Digest: "sha256:1", Commit: "abc"},
		},
		{
			"v1beta1 results", "successful",
			`{"pipelineRun":{` + meta + `,"status":{"pipelineResults":[{"name":"image-url","value":"r/hello:v1"}]}}}`,
			deploy.Run{UID: "u1", Event: "successful", Done: true, OK: true, Image: "r/hello:v1"},
		},
		{
			"cancelled", "failed",
			`{"pipelineRun":{` + meta + `,"status":{"conditions":[{"type":"Succeeded","status":"False","reason":"Cancelled","message":"by a user"}]}}}`,
			deploy.Run{UID: "u1", Event: "failed", Done: true, Message: "Cancelled: by a user"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, got, err := Tekton(tektonEvent(t, "dev.tekton.event.pipelinerun."+tt.kind+".v1", tt.data))
			check.OK(t, err)
			check.Equal(t, "run", tt.want, got)
		})
	}
}

func TestOtherEvents(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, kind, data string }{
		{"a TaskRun's", "dev.tekton.event.taskrun.successful.v1", `{}`},
		{"unknown", "dev.tekton.event.pipelinerun.unknown.v1", `{"pipelineRun":{` + meta + `}}`},
		{"another version", "dev.tekton.event.pipelinerun.successful.v2", `{"pipelineRun":{` + meta + `}}`},
		{"no run", "dev.tekton.event.pipelinerun.successful.v1", `{}`},
		{"no object", "dev.tekton.event.pipelinerun.successful.v1", `[]`},
		{"no JSON", "dev.tekton.event.pipelinerun.successful.v1", `{`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := Tekton(tektonEvent(t, tt.kind, tt.data)); !errors.Is(err, ErrOther) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestLongMessage(t *testing.T) {
	t.Parallel()
	got := joinReason("Failed", strings.Repeat("ä", 2000))
	if len(got) > maxMessage+len("…") || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
	}
}

func FuzzTekton(f *testing.F) {
	f.Add("successful", `{"pipelineRun":{`+meta+`,"status":{"results":[{"name":"IMAGE_URL","value":"a:b"}]}}}`)
	f.Add("failed", `{"pipelineRun":{`+meta+`,"status":{"conditions":[{"type":"Succeeded","status":"False"}]}}}`)
	f.Fuzz(func(t *testing.T, kind, data string) {
		p, run, err := tekton(kind, []byte(data))
		switch {
		case err != nil && !errors.Is(err, ErrOther):
			t.Errorf("got %v, want ErrOther", err)
		case err == nil && (p.Metadata.UID == "" || run.UID != p.Metadata.UID || !utf8.ValidString(run.Message) || run.OK && !run.Done):
			t.Errorf("%+v", run)
		}
	})
}
