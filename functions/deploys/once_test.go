package deploys

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestDeploymentWithIdempotencyKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v2"}`))
	w.within("staging", "2 hello:v2 live", "1 hello:v1 superseded")
	revision := int64(1)
	for _, call := range []struct{ path, body, other string }{
		{path: "hello/deployments", body: `{"image":"hello:v2"}`, other: `{"image":"hello:v3"}`},
		{path: "hello/rollback", body: "", other: `{"revision":1}`},
		{path: "hello/promote", body: `{"from_environment":"staging"}`, other: `{"from_environment":"staging","revision":2}`},
	} {
		send := func(user, body string) functest.Answer {
			return w.send(user, http.MethodPost, "prod", call.path, body, http.Header{api.IdempotencyKey: {"run 7 " + call.path}})
		}
		revision++
		for try := range 3 {
			got := send("ada", call.body)
			if d := made(got); d.Revision != revision || !d.Current {
				t.Errorf("%s, call %d: got %+v, want revision %d", call.path, try, d, revision)
			}
			if replayed := got.Header.Get(api.Replayed); (replayed == "true") != (try > 0) {
				t.Errorf("%s, call %d: replayed is %q", call.path, try, replayed)
			}
		}
		send("ada", call.other).Refused(http.StatusUnprocessableEntity, problem.IdempotencyKeyReused)
		w.becomesLive(revision)
		w.send("ada", http.MethodPost, "prod", call.path, call.body, http.Header{api.IdempotencyKey: {strings.Repeat("x", 256)}}).
			Refused(http.StatusBadRequest, problem.InvalidParameter)
	}
	if got := w.history("prod"); len(got) != 4 {
		t.Errorf("got the history %v, want 4 revisions", got)
	}
}

func TestTwoRollbacksWithDifferentKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	w.deploy("hello:v2")
	w.becomesLive(2)
	for i, key := range []string{"a", "b"} {
		d := made(w.send("ada", http.MethodPost, "prod", "hello/rollback", "", http.Header{api.IdempotencyKey: {key}}))
		if want := int64(1 + i); d.SourceRevision != 0 && int64(d.SourceRevision) != want {
			t.Errorf("rollback %s: got a copy of %d, want %d", key, d.SourceRevision, want)
		}
		w.becomesLive(d.Revision)
	}
}

func TestIdempotencyKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got := w.send("ada", http.MethodPost, "prod", "hello/deployments", `{"image":"hello:v2"}`, http.Header{api.IdempotencyKey: {"1"}})
			if got.Status != http.StatusAccepted {
				t.Errorf("got %d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	if got := w.history("prod"); len(got) != 2 {
		t.Errorf("got the history %v, want 2 revisions", got)
	}
}

func TestDeploymentWithIfMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	history := func() string {
		return w.as("vera", http.MethodGet, "prod", "hello/deployments", "").Header.Get(api.ETag)
	}
	if got := history(); got != `"1"` {
		t.Errorf("got the tag %s, want the revision's", got)
	}
	a, err := w.store.App(t.Context(), w.ref("prod").Namespace, "hello")
	check.OK(t, err)
	ofApp := httpapi.ETag(a.Asked())
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v2"}`))
	w.within("staging", "2 hello:v2 live", "1 hello:v1 superseded")
	for _, call := range []struct{ path, body string }{
		{path: "hello/deployments", body: `{"image":"hello:v2"}`},
		{path: "hello/rollback", body: `{"revision":1}`},
		{path: "hello/promote", body: `{"from_environment":"staging"}`},
	} {
		send := func(tag string) functest.Answer {
			return w.send("ada", http.MethodPost, "prod", call.path, call.body, http.Header{api.IfMatch: {tag}})
		}
		send(`"99"`).Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		tag := history()
		got := send(tag)
		if d := made(got); got.Header.Get(api.ETag) != api.RevisionTag(d.Revision) {
			t.Errorf("%s: got the tag %s of revision %d", call.path, got.Header.Get(api.ETag), d.Revision)
		}
		send(tag).Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		send(ofApp).Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		if a, err = w.store.App(t.Context(), w.ref("prod").Namespace, "hello"); err != nil {
			t.Fatal(err)
		}
		ofApp = httpapi.ETag(a.Asked())
		made(send(ofApp))
	}
	w.send("ada", http.MethodPost, "prod", "hello/rollback", "", http.Header{api.IfMatch: {`"1"`}}).
		Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
	// A repeated call gets its first response even if its revision is no longer current.
	headers := http.Header{api.IfMatch: {history()}, api.IdempotencyKey: {"again"}}
	first := made(w.send("ada", http.MethodPost, "prod", "hello/deployments", `{"image":"hello:v9"}`, headers))
	if again := made(w.send("ada", http.MethodPost, "prod", "hello/deployments", `{"image":"hello:v9"}`, headers)); again.Revision != first.Revision {
		t.Errorf("got revision %d, want %d", again.Revision, first.Revision)
	}
}
