package hook

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
)

const commit = "9fceb02d0ae598e95dc970b74767f19372d61af8"

func TestParseEvent(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 40)
	tests := []struct {
		name  string
		event Event
		body  string
		want  Call
	}{
		{
			"a push", Push, `{"ref":"refs/heads/main","before":"` + zeros + `","after":"` + commit + `","deleted":false,"repository":{"id":1}}`,
			Call{Event: Push, Ref: "refs/heads/main", Commit: commit},
		},
		{
			"Gitea's push has no deleted", Push, `{"ref":"refs/heads/main","after":"` + commit + `","compare_url":"","commits":[]}`,
			Call{Event: Push, Ref: "refs/heads/main", Commit: commit},
		},
		{
			"upper case", Push, `{"ref":"refs/heads/main","after":"` + strings.ToUpper(commit) + `"}`,
			Call{Event: Push, Ref: "refs/heads/main", Commit: commit},
		},
		{
			"SHA-256", Push, `{"ref":"refs/heads/main","after":"` + strings.Repeat("a1", 32) + `"}`,
			Call{Event: Push, Ref: "refs/heads/main", Commit: strings.Repeat("a1", 32)},
		},
		{
			"a deletion", Push, `{"ref":"refs/heads/main","after":"` + zeros + `","deleted":true}`,
			Call{Event: Push, Ref: "refs/heads/main", Deleted: true},
		},
		{
			"only deleted", Push, `{"ref":"refs/heads/main","after":"` + commit + `","deleted":true}`,
			Call{Event: Push, Ref: "refs/heads/main", Deleted: true},
		},
		{
			"only zeros", Push, `{"ref":"refs/tags/v1","after":"` + strings.Repeat("0", 64) + `"}`,
			Call{Event: Push, Ref: "refs/tags/v1", Deleted: true},
		},
		{"a ping", Ping, `{"zen":"Keep it logically awesome.","hook_id":1}`, Call{Event: Ping}},
		{"another event", "issues", `{"action":"opened","ref":7}`, Call{Event: "issues"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseEvent(tt.event, []byte(tt.body))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParseEventRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       problem.Code
	}{
		{"nothing", ``, problem.MalformedJSON},
		{"half an object", `{"ref":`, problem.MalformedJSON},
		{"two objects", `{}{}`, problem.MalformedJSON},
		{"a list", `[]`, problem.WrongType},
		{"null", `null`, problem.MissingField},
		{"no ref", `{"after":"` + commit + `"}`, problem.MissingField},
		{"no after", `{"ref":"refs/heads/main"}`, problem.MissingField},
		{"a ref of null", `{"ref":null,"after":"` + commit + `"}`, problem.MissingField},
		{"an empty after", `{"ref":"refs/heads/main","after":""}`, problem.MissingField},
		{"a number for after", `{"ref":"refs/heads/main","after":12}`, problem.WrongType},
		{"a string for deleted", `{"ref":"refs/heads/main","after":"` + commit + `","deleted":"yes"}`, problem.WrongType},
		{"an option for after", `{"ref":"refs/heads/main","after":"--upload-pack=x"}`, problem.InvalidCommit},
		{"a long after", `{"ref":"refs/heads/main","after":"` + strings.Repeat("a", 65) + `"}`, problem.InvalidCommit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := ParseEvent(Push, []byte(tt.body)); !problem.Is(err, tt.want) {
				t.Errorf("got %+v, %v; want %s", got, err, tt.want)
			}
		})
	}
	if _, err := ParseEvent(Ping, []byte(`null`)); !problem.Is(err, problem.WrongType) {
		t.Errorf("a ping of null: %v", err)
	}
}

func TestParseCommit(t *testing.T) {
	t.Parallel()
	good := map[string]string{"": "", "9fce": "9fce", "9FCEB02": "9fceb02", commit: commit, "0000000": "0000000"}
	for in, want := range good {
		if got, err := ParseCommit(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"9fc", "HEAD", "main", "9fceb0g", " 9fceb02", "9fceb02\n", "-9fceb02", "９fceb02", "K123456", strings.Repeat("a", 65), strings.Repeat("a", 1<<20)} {
		if got, err := ParseCommit(in); !problem.Is(err, problem.InvalidCommit) {
			t.Errorf("%.80q: got %q, %v; want an error", in, got, err)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		header   map[string]string
		event    Event
		delivery string
	}{
		{"none", nil, NoEvent, ""},
		{"GitHub", map[string]string{"X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1"}, Push, "d-1"},
		{"Gitea", map[string]string{"X-Gitea-Event": "push", "X-Gitea-Delivery": "d-2"}, Push, "d-2"},
		{"GitLab", map[string]string{"X-Gitlab-Event": "Push Hook", "Idempotency-Key": "d-3"}, Push, "d-3"},
		{"GitLab's tag", map[string]string{"X-Gitlab-Event": "Tag Push Hook"}, "X-Gitlab-Event: Tag Push Hook", ""},
		{"a pipeline", map[string]string{"Idempotency-Key": "run-7"}, NoEvent, "run-7"},
		{"GitHub's before the rest", map[string]string{"Idempotency-Key": "run-7", "X-GitHub-Delivery": "d-1"}, NoEvent, "d-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for k, v := range tt.header {
				h.Set(k, v)
			}
			if e, d := EventOf(h), DeliveryOf(h); e != tt.event || d != tt.delivery {
				t.Errorf("got %q, %q; want %q, %q", e, d, tt.event, tt.delivery)
			}
		})
	}
	empty := http.Header{}
	empty.Set("X-GitHub-Event", "")
	if e := EventOf(empty); e != NoEvent {
		t.Errorf("empty event: got %q", e)
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add("push", `{"ref":"refs/heads/main","after":"`+commit+`","deleted":false}`)
	f.Add("push", `{"ref":"refs/tags/v1","after":"0000000000000000000000000000000000000000"}`)
	f.Add("ping", `{"zen":"x"}`)
	f.Add("issues", `[]`)
	f.Fuzz(func(t *testing.T, event, body string) {
		call, err := ParseEvent(Event(event), []byte(body))
		if err != nil {
			if problem.From(err).Status() >= http.StatusInternalServerError {
				t.Errorf("%q: got %v, want a problem of the client", body, err)
			}
			return
		}
		if again, err := ParseCommit(call.Commit); err != nil || again != call.Commit {
			t.Errorf("invalid commit %q: %v", call.Commit, err)
		}
		if call.Image != "" || call.Event == Push && call.Ref == "" || !utf8.ValidString(call.Ref) {
			t.Errorf("got %+v", call)
		}
	})
}
