package store

import (
	"context"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestKeyedMutex(t *testing.T) {
	t.Parallel()
	var locks keyedMutex
	const ref = "apps/shop-prod.hello"
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			unlock, ok := locks.lock(t.Context(), ref)
			if !ok || inside.Add(1) != 1 {
				t.Error("got two holders of the lock")
			}
			inside.Add(-1)
			unlock()
		})
	}
	all.Wait()
	unlock, _ := locks.lock(t.Context(), ref)
	other, ok := locks.lock(t.Context(), "apps/shop-prod.other")
	if !ok {
		t.Fatal("lock of another document: got a timeout")
	}
	other()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := locks.lock(ended, ref); ok {
		t.Error("got a second holder of the lock")
	}
	unlock()
	if len(locks.locks) != 0 {
		t.Errorf("got %d documents with locks, want 0", len(locks.locks))
	}
}

func TestProblemOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		want problem.Code
	}{
		{"no response in time", context.DeadlineExceeded, problem.Unavailable},
		{"no response in time, by the store", status.Error(codes.DeadlineExceeded, ""), problem.Unavailable},
		{"refused", status.Error(codes.Unavailable, "connection refused"), problem.Unavailable},
		{"commit sent again after a reset", status.Error(codes.InvalidArgument, "Transaction is invalid or closed."), problem.Unavailable},
		{"the same, in production", status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid."), problem.Unavailable},
		{"an invalid call", status.Error(codes.InvalidArgument, "Document name \"x\" is invalid."), problem.Internal},
		{"conflict", status.Error(codes.Aborted, ""), problem.Conflict},
		{"absent", status.Error(codes.NotFound, ""), problem.NotFound},
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
