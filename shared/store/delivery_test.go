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

func deployCall(image string) func(app.App) (hook.Outcome, error) {
	return func(app.App) (hook.Outcome, error) {
		return hook.Outcome{
			Decision: hook.Decision{Action: hook.Deploy, Image: image, Commit: "9fceb02"},
			Revision: deploy.New(image, "", deploy.Webhook, "webhook", noon()),
		}, nil
	}
}

func delivery(id, body string) hook.Delivery { return hook.NewDelivery(hello(), id, []byte(body)) }

func receive(t *testing.T, s *store.Store, d hook.Delivery, now time.Time, rule func(app.App) (hook.Outcome, error)) (hook.Answer, bool) {
	t.Helper()
	answer, fresh, err := s.Receive(t.Context(), hello(), d, now, rule)
	check.OK(t, err)
	return answer, fresh
}

func TestReceiveOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeApp(t, s, "hello:v1")
	want := hook.Answer{Action: hook.Deploy, Revision: 2, Image: "hello:v2", Commit: "9fceb02"}
	if got, fresh := receive(t, s, delivery("1", "x"), noon(), deployCall("hello:v2")); !fresh || got != want {
		t.Errorf("the first time it is %+v, fresh %v", got, fresh)
	}
	never := func(app.App) (hook.Outcome, error) { return hook.Outcome{}, errors.New("asked again") }
	late := noon().Add(hook.Remembered - time.Nanosecond)
	if got, fresh := receive(t, s, delivery("1", "x"), late, never); fresh || got != want {
		t.Errorf("the second time it is %+v, fresh %v", got, fresh)
	}
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "y"), late, never); !problem.Is(err, problem.Conflict) {
		t.Errorf("with another body: %v", err)
	}
	if got, fresh := receive(t, s, delivery("1", "y"), noon().Add(hook.Remembered), deployCall("hello:v3")); !fresh || got.Revision != 3 {
		t.Errorf("a day later it is %+v, fresh %v", got, fresh)
	}
	for n := int64(4); n < 6; n++ { // without an ID, every call is new
		if got, fresh := receive(t, s, hook.Delivery{}, noon(), deployCall("hello:v4")); !fresh || got.Revision != n {
			t.Errorf("got %+v, fresh %v", got, fresh)
		}
	}
}

func TestReceiveRefused(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "x"), noon(), deployCall("hello:v2")); !problem.Is(err, problem.NotFound) {
		t.Errorf("without an app: %v", err)
	}
	before := storeApp(t, s, "hello:v1")
	refuse := func(app.App) (hook.Outcome, error) { return hook.Outcome{}, problem.Of(problem.ImageRequired) }
	if _, _, err := s.Receive(t.Context(), hello(), delivery("1", "x"), noon(), refuse); !problem.Is(err, problem.ImageRequired) {
		t.Errorf("refused: %v", err)
	}
	if after, err := s.App(t.Context(), "shop-prod", "hello"); err != nil || after.Revision != before.Revision {
		t.Errorf("the app has become %+v, %v", after, err)
	}
	// The rejected call was not recorded.
	if got, fresh := receive(t, s, delivery("1", "y"), noon(), deployCall("hello:v2")); !fresh || got.Revision != 2 {
		t.Errorf("got %+v, fresh %v", got, fresh)
	}
}

func TestReceiveBuild(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := storeApp(t, s, "")
	for n := int64(1); n <= 2; n++ {
		got, _ := receive(t, s, hook.Delivery{}, noon(), func(a app.App) (hook.Outcome, error) {
			return hook.Outcome{
				Decision: hook.Decision{Action: hook.Build, Commit: "9fceb02"},
				Build:    deploy.NewBuild(*a.GitSource, "9fceb02", deploy.Webhook, "webhook", noon()),
			}, nil
		})
		check.Equal(t, "answer", hook.Answer{Action: hook.Build, Build: n, Commit: "9fceb02"}, got)
	}
	b, err := s.Build(t.Context(), a.Ref(), 2)
	if err != nil || b.Status != deploy.Queued || b.Commit != "9fceb02" || b.Source != *a.GitSource {
		t.Errorf("build 2 is %+v, %v", b, err)
	}
	pending, _, err := s.PendingBuilds(t.Context(), store.Page{Size: 10})
	if err != nil || len(pending) != 2 {
		t.Errorf("pending are %v, %v", pending, err)
	}
	ignored := hook.Decision{Action: hook.Ignore, Reason: "Because."}
	got, _ := receive(t, s, delivery("2", "x"), noon(), func(app.App) (hook.Outcome, error) { return hook.Outcome{Decision: ignored}, nil })
	if got != (hook.Answer{Action: hook.Ignore, Reason: "Because."}) {
		t.Errorf("ignored is %+v", got)
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
				t.Errorf("got %+v, %v", got, err)
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
		t.Errorf("%d were the first, and the app is at %d, %v", first, a.Revision, err)
	}
}
