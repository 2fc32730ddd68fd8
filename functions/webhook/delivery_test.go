package webhook

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestRedelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"image":"` + image2 + `"}`
	first := w.ci(hello, body).with("Idempotency-Key", "run-7").send()
	first.is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	w.ci(hello, body).with("Idempotency-Key", "run-8").is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 3, Image: image2})
	w.clock.Advance(24*time.Hour - time.Second)

	again := w.ci(hello, body).with("Idempotency-Key", "run-7").send()
	if again.Status != first.Status || string(again.Body) != string(first.Body) {
		t.Errorf("got %d %s\nand then %d %s", first.Status, string(first.Body), again.Status, string(again.Body))
	}
	if first.Header.Get(api.Replayed) != "" || again.Header.Get(api.Replayed) != "true" {
		t.Error("Idempotent-Replayed: want it on the second response only")
	}
	w.ci(hello, body+" ").with("Idempotency-Key", "run-7").refused(http.StatusConflict, "conflict")
	if revisions, _ := w.added(hello); len(revisions) != 3 {
		t.Errorf("revisions: got %d, want 3", len(revisions))
	}
	if n := w.told.seen[app.DeployRequested+" shop-prod.hello"]; n != 2 {
		t.Errorf("notifications: got %d, want 2", n)
	}
	w.clock.Advance(time.Second) // the first delivery has expired
	w.ci(hello, body).with("Idempotency-Key", "run-7").is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 4, Image: image2})
}

func TestRedeliveredEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		name, header, event, body string
		want                      any
		status                    int
	}{
		{"GitHub's push", "X-GitHub-Delivery", "push", pushOf("refs/heads/main", commit, false), wire.WebhookStatus{Status: "building", Build: 1, Commit: commit}, 202},
		{"Gitea's push", "X-Gitea-Delivery", "push", pushOf("refs/heads/main", commit, false), wire.WebhookStatus{Status: "building", Build: 2, Commit: commit}, 202},
		{"another branch", "X-GitHub-Delivery", "push", pushOf("refs/heads/dev", commit, false), wire.WebhookIgnored{Status: "ignored", Reason: "The push is not to the git source's branch."}, 202},
		{"a ping", "X-GitHub-Delivery", "ping", `{}`, wire.WebhookPong{Status: "pong"}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 3 {
				w.provider(site, tt.event, tt.body).with(tt.header, tt.name).is(tt.status, tt.want)
			}
		})
	}
	if _, builds := w.added(site); len(builds) != 2 {
		t.Errorf("builds: got %d, want 2", len(builds))
	}
}

func TestDeliveryOfAnotherApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`"}`).with("Idempotency-Key", "1").is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	w.ci(site, `{}`).with("Idempotency-Key", "1").is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 1})
	// A delivery ID is no substitute for the token.
	w.call(hello, `{"image":"`+image2+`"}`).with("Idempotency-Key", "1").refused(http.StatusUnauthorized, "invalid_token")
}

// A rejected call can be sent again once the cause of the rejection is removed.
func TestRefusedIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"image":"` + image2 + `"}`
	w.ci(site, body).with("Idempotency-Key", "1").refused(http.StatusConflict, "git_source_attached")
	_, err := w.store.UpdateApp(t.Context(), refOf(site), func(a app.App) (app.App, error) {
		a.GitSource = nil
		return a, nil
	})
	check.OK(w, err)
	w.ci(site, body).with("Idempotency-Key", "1").is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 1, Image: image2})
	w.ci(site, body).with("Idempotency-Key", "1").is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 1, Image: image2})
}

func TestDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const senders = 20
	atOnce := func(id func(int) string) []answer {
		answers := make([]answer, senders)
		var group sync.WaitGroup
		for i := range senders {
			group.Go(func() {
				answers[i] = w.ci(hello, `{"image":"`+image2+`"}`).with("Idempotency-Key", id(i)).send()
			})
		}
		group.Wait()
		return answers
	}
	for _, a := range atOnce(func(int) string { return "same" }) {
		a.is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	}
	if revisions, _ := w.added(hello); len(revisions) != 2 {
		t.Fatalf("unexpected number of revisions: %d", len(revisions))
	}
	w.clock.Advance(time.Minute) // stay below the rate limit
	for _, a := range atOnce(func(i int) string { return fmt.Sprint(i) }) {
		if a.Status != http.StatusAccepted {
			t.Errorf("got %d %s", a.Status, string(a.Body))
		}
	}
	revisions, _ := w.added(hello)
	numbers := make([]int, len(revisions))
	want := make([]int, senders+2)
	for i, r := range revisions {
		numbers[i] = int(r.Number)
	}
	for i := range want {
		want[i] = i + 1
	}
	slices.Sort(numbers)
	check.Equal(t, "revisions", want, numbers)
}
