package hook

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	image := app.App{Name: "hello", Image: "registry.example.com/hello:1"}
	git := app.App{Name: "hello", GitSource: &app.GitSource{Repository: "https://git.example.com/shop/hello.git", Branch: "main"}}
	feature := app.App{Name: "hello", GitSource: &app.GitSource{Repository: "https://git.example.com/shop/hello.git", Branch: "feature/main"}}
	pushTo := func(ref string) Call { return Call{Event: Push, Ref: ref, Commit: commit} }
	build := Decision{Action: Build, Commit: commit}
	tests := []struct {
		name string
		app  app.App
		call Call
		want Decision
		code problem.Code
	}{
		{"image app, image", image, Call{Image: "r.example.com/a:2"}, Decision{Action: Deploy, Image: "r.example.com/a:2"}, ""},
		{"image app, image and commit", image, Call{Image: "r.example.com/a:2", Commit: "9fceb02"}, Decision{Action: Deploy, Image: "r.example.com/a:2", Commit: "9fceb02"}, ""},
		{"image app, commit only", image, Call{Commit: "9fceb02"}, Decision{}, problem.ImageRequired},
		{"image app, nothing", image, Call{}, Decision{}, problem.ImageRequired},
		{"image app, push", image, pushTo("refs/heads/main"), Decision{}, problem.ImageRequired},
		{"image app, ping", image, Call{Event: Ping}, Decision{Action: Pong}, ""},
		{"git app, commit", git, Call{Commit: commit}, build, ""},
		{"git app, nothing", git, Call{}, Decision{Action: Build}, ""},
		{"git app, image", git, Call{Image: "r.example.com/a:2"}, Decision{}, problem.GitSourceAttached},
		{"git app, image and commit", git, Call{Image: "r.example.com/a:2", Commit: commit}, Decision{}, problem.GitSourceAttached},
		{"git app, push", git, pushTo("refs/heads/main"), build, ""},
		{"a branch with a slash", feature, pushTo("refs/heads/feature/main"), build, ""},
		{"git app, ping", git, Call{Event: Ping}, Decision{Action: Pong}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Decide(tt.app, tt.call)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.code != "") || tt.code != "" && !problem.Is(err, tt.code) {
				t.Errorf("problem: got %v, want %q", err, tt.code)
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	git := app.App{Name: "hello", GitSource: &app.GitSource{Branch: "main"}}
	tests := map[string]Call{
		"another branch":          {Event: Push, Ref: "refs/heads/dev", Commit: commit},
		"feature/main":            {Event: Push, Ref: "refs/heads/feature/main", Commit: commit},
		"main2":                   {Event: Push, Ref: "refs/heads/main2", Commit: commit},
		"Main":                    {Event: Push, Ref: "refs/heads/Main", Commit: commit},
		"a tag called main":       {Event: Push, Ref: "refs/tags/main", Commit: commit},
		"the bare name":           {Event: Push, Ref: "main", Commit: commit},
		"a ref that ends like it": {Event: Push, Ref: "refs/remotes/refs/heads/main", Commit: commit},
		"a deletion":              {Event: Push, Ref: "refs/heads/main", Deleted: true},
		"a pull request":          {Event: "pull_request"},
		"an event called Push":    {Event: "Push"},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decide(git, call)
			if err != nil || got.Action != Ignore || got.Reason == "" || got.Commit != "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestNewDelivery(t *testing.T) {
	t.Parallel()
	hello := app.Ref{Namespace: "shop-prod", Name: "hello"}
	one := NewDelivery(hello, "d-1", []byte("body"))
	if diff := cmp.Diff(one, NewDelivery(hello, "d-1", []byte("body"))); diff != "" {
		t.Errorf("same delivery (-first +second):\n%s", diff)
	}
	if len(one.ID) != 64 || len(one.Body) != 64 {
		t.Errorf("got %+v", one)
	}
	others := map[string]CallID{
		"another app":         NewDelivery(app.Ref{Namespace: "shop-prod", Name: "other"}, "d-1", []byte("body")),
		"another environment": NewDelivery(app.Ref{Namespace: "shop-test", Name: "hello"}, "d-1", []byte("body")),
		"another id":          NewDelivery(hello, "d-2", []byte("body")),
		"a path for an id":    NewDelivery(hello, "../keys/key-ab12cd34", []byte("body")),
	}
	for name, other := range others {
		if other.ID == one.ID || len(other.ID) != 64 || other.Body != one.Body {
			t.Errorf("%s: got %+v", name, other)
		}
	}
	if other := NewDelivery(hello, "d-1", []byte("body ")); other.ID != one.ID || other.Body == one.Body {
		t.Errorf("another body: got %+v", other)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		out  RecordedWork
		want StoredResponse
	}{
		{"deployed", RecordedWork{Decision: Decision{Action: Deploy, Image: "a:1", Commit: "9fce"}}, StoredResponse{Action: Deploy, Revision: 7, Image: "a:1", Commit: "9fce"}},
		{"building", RecordedWork{Decision: Decision{Action: Build, Commit: "9fce"}}, StoredResponse{Action: Build, Build: 7, Commit: "9fce"}},
		{"ignored", RecordedWork{Decision: Decision{Action: Ignore, Reason: "Because."}}, StoredResponse{Action: Ignore, Reason: "Because."}},
		{"pong", RecordedWork{Decision: Decision{Action: Pong}}, StoredResponse{Action: Pong}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.out.Answer(7)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
