package store

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want problem.Code
	}{
		{"no response in time", context.DeadlineExceeded, problem.Unavailable},
		{"unavailable", fire.ErrUnavailable, problem.Unavailable},
		{"unavailable, with an unclear commit", errors.Join(fire.ErrUnclear, fire.ErrUnavailable), problem.Unavailable},
		{"conflict", fmt.Errorf("commit: %w", fire.ErrStale), problem.Conflict},
		{"absent", fire.ErrNotFound, problem.NotFound},
		{"present", fire.ErrExists, problem.AlreadyExists},
		{"a problem", problem.FromCode(problem.TooManyKeys).WithCause(fire.ErrStale), problem.TooManyKeys},
		{"another error", errors.New("unknown"), problem.Internal},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := problem.From(problemOf(test.err, "key")); got.Code != test.want {
				t.Errorf("got code %s, want %s", got.Code, test.want)
			}
		})
	}
}

// An ID from a page token must not refer to a document of another collection.
func FuzzValidID(f *testing.F) {
	for _, id := range []string{"key-ab12cd34", "shop-prod.hello", "", ".", "..", "a/b", "__name__", "__id7__", "____", "a\x00b", "é", strings.Repeat("a", 600), "%2e%2e"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if !validID(id) {
			return
		}
		const root = "projects/p/databases/(default)/documents/keys/"
		if joined := path.Clean(root + id); joined != root+id || path.Base(joined) != id || path.Dir(joined)+"/" != root {
			t.Errorf("ID %q: got path %q", id, joined)
		}
		if strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") {
			t.Errorf("reserved ID %q is accepted", id)
		}
	})
}
