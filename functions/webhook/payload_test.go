package webhook

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

func FuzzParseCall(f *testing.F) {
	f.Add(`{"image":"registry.example.com/shop/hello:2","commit":"9fceb02"}`)
	f.Add(`{"image":null,"commit":""}`)
	f.Add(`{"Image":"a:1"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, body string) {
		call, err := parseCall([]byte(body))
		if err != nil {
			if problem.From(err).Status() >= http.StatusInternalServerError {
				t.Errorf("%q: got %v, want a problem of the client", body, err)
			}
			return
		}
		if again, err := hook.ParseCommit(call.Commit); err != nil || again != call.Commit {
			t.Errorf("%q: got commit %q, %v", body, call.Commit, err)
		}
		if call.Event != hook.NoEvent || call.Ref != "" || call.Deleted {
			t.Errorf("%q: got %+v", body, call)
		}
	})
}
