package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func deployCall(image string) func(app.App) (hook.RecordedWork, error) {
	return func(app.App) (hook.RecordedWork, error) {
		return hook.RecordedWork{
			Decision: hook.Decision{Action: hook.Deploy, Image: image, Commit: "9fceb02"},
			Revision: deploy.New(image, "", deploy.Webhook, "webhook", noon()),
		}, nil
	}
}

func delivery(id, body string) hook.CallID { return hook.NewDelivery(hello(), id, []byte(body)) }

func receive(t *testing.T, s *store.Store, d hook.CallID, now time.Time, rule func(app.App) (hook.RecordedWork, error)) (hook.StoredResponse, bool) {
	t.Helper()
	answer, fresh, err := s.Receive(t.Context(), hello(), d, now, rule)
	check.OK(t, err)
	return answer, fresh
}

func TestReceiveOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	want := hook.StoredResponse{Action: hook.Deploy, Revision: 2, Image: "hello:v2", Commit: "9fceb02"}
	if got, fresh := receive(t, s, delivery("1", "x"), noon(), deployCall("hello:v2")); !fresh || got != want {
		t.Errorf("first call: got %+v, fresh %v, want a fresh response", got, fresh)
	}
	never := func(app.App) (hook.RecordedWork, error) { return hook.RecordedWork{}, errors.New("rule called again") }
	late := noon().Add(hook.ReplayWindow - time.Nanosecond)
	if got, fresh := receive(t, s, delivery("1", "x"), late, never); fresh || got != want {
		t.Errorf("second call: got %+v, fresh %v, want the first response", got, fresh)
	}
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "y"), late, never); !problem.Is(err, problem.Conflict) {
		t.Errorf("another body: got %v, want conflict", err)
	}
	if got, fresh := receive(t, s, delivery("1", "y"), noon().Add(hook.ReplayWindow), deployCall("hello:v3")); !fresh || got.Revision != 3 {
		t.Errorf("a day later: got %+v, fresh %v, want a fresh response", got, fresh)
	}
	for n := int64(4); n < 6; n++ { // without an ID, every call is new
		if got, fresh := receive(t, s, hook.CallID{}, noon(), deployCall("hello:v4")); !fresh || got.Revision != n {
			t.Errorf("call without an ID: got %+v, fresh %v, want a fresh response", got, fresh)
		}
	}
}

func TestReceiveRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "x"), noon(), deployCall("hello:v2")); !problem.Is(err, problem.NotFound) {
		t.Errorf("missing app: got %v, want not_found", err)
	}
	before := storeApp(t, s, "hello:v1")
	refuse := func(app.App) (hook.RecordedWork, error) {
		return hook.RecordedWork{}, problem.FromCode(problem.ImageRequired)
	}
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "x"), noon(), refuse); !problem.Is(err, problem.ImageRequired) {
		t.Errorf("rejected call: got %v, want image_required", err)
	}
	if after, err := s.App(t.Context(), "shop-prod", "hello"); err != nil || after.Revision != before.Revision {
		t.Errorf("app after a rejected call: got %+v, %v, want no change", after, err)
	}
	// The rejected call was not recorded.
	if got, fresh := receive(t, s, delivery("1", "y"), noon(), deployCall("hello:v2")); !fresh || got.Revision != 2 {
		t.Errorf("got %+v, fresh %v, want a fresh response with revision 2", got, fresh)
	}
}

func TestReceiveBuild(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := storeApp(t, s, "")
	for n := int64(1); n <= 2; n++ {
		got, _ := receive(t, s, hook.CallID{}, noon(), func(a app.App) (hook.RecordedWork, error) {
			return hook.RecordedWork{
				Decision: hook.Decision{Action: hook.Build, Commit: "9fceb02"},
				Build:    deploy.NewBuild(*a.GitSource, "9fceb02", deploy.Webhook, "webhook", noon()),
			}, nil
		})
		check.Equal(t, "response", hook.StoredResponse{Action: hook.Build, Build: n, Commit: "9fceb02"}, got)
	}
	b, err := s.Build(t.Context(), a.Ref(), 2)
	if err != nil || b.Status != deploy.Queued || b.Commit != "9fceb02" || b.Source != *a.GitSource {
		t.Errorf("build 2: got %+v, %v, want a queued build of the git source", b, err)
	}
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 10})
	if err != nil || len(pending) != 2 {
		t.Errorf("pending builds: got %v, %v, want two", pending, err)
	}
	ignored := hook.Decision{Action: hook.Ignore, Reason: "Because."}
	got, _ := receive(t, s, delivery("2", "x"), noon(), func(app.App) (hook.RecordedWork, error) { return hook.RecordedWork{Decision: ignored}, nil })
	if got != (hook.StoredResponse{Action: hook.Ignore, Reason: "Because."}) {
		t.Errorf("ignored call: got %+v", got)
	}
}

func TestReceiveAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	var mu sync.Mutex
	first := 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got, fresh, err := s.Receive(t.Context(), hello(), delivery("1", "x"), noon(), deployCall("hello:v2"))
			if err != nil || got.Revision != 2 {
				t.Errorf("got %+v, %v, want revision 2", got, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if fresh {
				first++
			}
		})
	}
	all.Wait()
	if a, err := s.App(t.Context(), "shop-prod", "hello"); err != nil || a.Revision != 2 || first != 1 {
		t.Errorf("got %d fresh responses, app at revision %d, %v, want 1 and 2", first, a.Revision, err)
	}
}
