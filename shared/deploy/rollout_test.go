package deploy

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }

func TestObserve(t *testing.T) {
	t.Parallel()
	const deadline = 2 * time.Minute
	at := func(d time.Duration) time.Time { return noon().Add(d) }
	applied := Revision{Number: 3, Status: RollingOut, AppliedAt: noon()}
	live := Revision{Number: 3, Status: Live, AppliedAt: noon()}
	failed := Revision{Number: 3, Status: Failed, AppliedAt: noon(), FinishedAt: at(deadline), Message: "Why."}
	tests := []struct {
		name    string
		r       Revision
		o       Observation
		now     time.Time
		status  Status
		message string
		changed bool
	}{
		{"ready", applied, Observation{Revision: 3, Ready: true}, at(time.Second), Live, "", true},
		{"ready as another revision", applied, Observation{Revision: 2, Ready: true}, at(time.Second), RollingOut, "", false},
		{"not ready yet", applied, Observation{Revision: 3, Message: "Soon."}, at(deadline - 1), RollingOut, "Soon.", true},
		{"nothing new", applied, Observation{Revision: 3}, at(time.Second), RollingOut, "", false},
		{"too late", applied, Observation{Revision: 3, Message: "No pod."}, at(deadline), Failed, "The rollout made no progress for 2m0s: No pod.", true},
		{"progress", applied, Observation{Revision: 3, Message: "On.", ProgressAt: at(time.Minute)}, at(deadline), RollingOut, "On.", true},
		{"progress long ago", applied, Observation{Revision: 3, ProgressAt: at(time.Minute)}, at(3 * time.Minute), Failed, "The rollout made no progress for 2m0s: the workload is not ready.", true},
		{"progress in the future", applied, Observation{Revision: 3, Message: "No.", ProgressAt: at(time.Hour)}, at(deadline), Failed, "The rollout made no progress for 2m0s: No.", true},
		{"live stays live", live, Observation{Revision: 3, Message: "A pod is gone."}, at(time.Hour), Live, "", false},
		{"failed stays failed", failed, Observation{Revision: 3, Message: "No."}, at(time.Hour), Failed, "Why.", false},
		{"failed, ready after all", failed, Observation{Revision: 3, Ready: true}, at(time.Hour), Live, "", true},
		{"idle", applied, Observation{Revision: 3, Idle: true, Message: "Zero."}, at(time.Hour), RollingOut, "Zero.", true},
		{"live and idle", live, Observation{Revision: 3, Idle: true, Message: "Zero."}, at(time.Hour), Live, "", true},
		{"failed and idle", failed, Observation{Revision: 3, Idle: true, Message: "Zero."}, at(time.Hour), Failed, "Why.", true},
		{"superseded", Revision{Number: 3, Status: Superseded}, Observation{Revision: 3, Ready: true}, at(0), Superseded, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, changed := tt.r.Observe(tt.o, deadline, tt.now)
			if got.Status != tt.status || got.Message != tt.message || changed != tt.changed {
				t.Errorf("%s, %q, changed %v", got.Status, got.Message, changed)
			}
			if turned := got.Status != tt.r.Status; turned && !got.FinishedAt.Equal(tt.now) {
				t.Errorf("unexpected FinishedAt: %v", got.FinishedAt)
			}
		})
	}
}

func TestFirstReadyPod(t *testing.T) {
	t.Parallel()
	for _, status := range Statuses() {
		r := Revision{Number: 3, Status: status, AppliedAt: noon()}
		if got, _ := r.Observe(Observation{Revision: 3}, time.Hour, noon()); !got.ReadyAt.IsZero() {
			t.Errorf("%s, no pod: ready at %v", status, got.ReadyAt)
		}
		got, changed := r.Observe(Observation{Revision: 3, PodReady: true}, time.Hour, noon())
		if !changed || !got.ReadyAt.Equal(noon()) || got.Status != status {
			t.Errorf("%s: got %+v, changed %v", status, got, changed)
		}
		if again, changed := got.Observe(Observation{Revision: 3, PodReady: true}, time.Hour, noon().Add(1)); changed || !again.ReadyAt.Equal(noon()) {
			t.Errorf("%s, again: got %+v, changed %v", status, again, changed)
		}
	}
}

func TestClockStartsWhenApplied(t *testing.T) {
	t.Parallel()
	r := New("hello:v1", "", Manual, "ada", noon())
	r.Number = 1
	r, changed := r.Observe(Observation{Revision: 1}, time.Minute, noon().Add(time.Hour))
	if !changed || r.Status != RollingOut || !r.AppliedAt.Equal(noon().Add(time.Hour)) {
		t.Errorf("%+v", r)
	}
}

func TestRefusedAndDelayed(t *testing.T) {
	t.Parallel()
	rolling, failed, live := Revision{Status: RollingOut}, Revision{Status: Failed, Message: "Old."}, Revision{Status: Live}
	if r, changed := rolling.Refused("bad field", noon()); !changed || r.Status != Failed || r.Message != "The cluster rejected the revision: bad field" {
		t.Errorf("rolling out: %+v", r)
	}
	if r, changed := failed.Refused("bad field", noon()); !changed || !r.FinishedAt.IsZero() {
		t.Errorf("failed: %+v", r)
	}
	if _, changed := live.Refused("bad field", noon()); changed {
		t.Error("a live revision failed")
	}
	if r, changed := rolling.Delayed("later"); !changed || r.Status != RollingOut || r.Message != "later" {
		t.Errorf("delayed: %+v", r)
	}
	if _, changed := failed.Delayed("later"); changed {
		t.Error("a failed revision was delayed")
	}
}

func TestRunsIncludesDigest(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, image, digest, want string }{
		{"a tag", "hello:v1", "", "hello:v1"},
		{"a resolved tag", "hello:v1", "sha256:1", "hello:v1@sha256:1"},
		{"a digest", "hello@sha256:1", "sha256:1", "hello@sha256:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := (Revision{Image: tt.image, Digest: tt.digest}).Runs(); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestNoDigest(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Revision{
		"":             {Digest: "sha256:1", Note: "A note."},
		"It was slow.": {Note: "It was slow."},
		"The tag was deployed without a digest, because no registry was queried.": {},
	} {
		if got := r.NoDigest(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	source := Revision{
		Number: 4, Image: "hello:v1", Digest: "sha256:1", Commit: "abc", Trigger: Webhook, Actor: "webhook", Source: 2,
		Note: "A note.", Status: Failed, Message: "Why.", Build: 7, NewestBuild: 9,
	}
	want := Revision{
		Image: "hello:v1", Digest: "sha256:1", Commit: "abc", Trigger: Rollback, Actor: "ada", Source: 4,
		Status: RollingOut, DeployedAt: noon(),
	}
	check.Equal(t, "copy", want, source.Copy(Rollback, "ada", noon()))
	source.Digest = ""
	if got := source.Copy(Rollback, "ada", noon()).DisplayMessage(); got != "A note." {
		t.Errorf("message without a digest: got %q", got)
	}
}

func TestRevisionAfterKeepsBuildNumbers(t *testing.T) {
	t.Parallel()
	current := Revision{Number: 5, NewestBuild: 3, HeldBuild: 2}
	for trigger, held := range map[Trigger]int64{Webhook: 2, Manual: 2, Promotion: 2, Rollback: 7} {
		r := Revision{Build: 2, Trigger: trigger}.After(current, 8, 7)
		if r.Number != 9 || r.NewestBuild != 3 || r.HeldBuild != held {
			t.Errorf("%s: %+v", trigger, r)
		}
	}
}

func TestClockStartsAfterIdle(t *testing.T) {
	t.Parallel()
	r := Revision{Number: 3, Status: RollingOut, AppliedAt: noon()}
	r, _ = r.Observe(Observation{Revision: 3, Idle: true}, time.Minute, noon().Add(time.Hour))
	if r.AppStatus() != Idle {
		t.Errorf("got the app's status %s, want idle", r.AppStatus())
	}
	r, _ = r.Observe(Observation{Revision: 3}, time.Minute, noon().Add(2*time.Hour))
	if r.Status != RollingOut || r.AppStatus() != AppStatus(RollingOut) {
		t.Errorf("got %+v, want a revision that is rolling out", r)
	}
	if r, _ = r.Observe(Observation{Revision: 3}, time.Minute, noon().Add(3*time.Hour)); r.Status != Failed {
		t.Errorf("got %+v, want a failed revision", r)
	}
}

func TestRevisionWorked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		r      Revision
		worked bool
	}{
		{"rolling out", Revision{Status: RollingOut}, false},
		{"rolling out with a ready pod", Revision{Status: RollingOut, ReadyAt: noon()}, true},
		{"overtaken with a ready pod", first(Revision{Status: RollingOut, ReadyAt: noon()}.Supersede(2)), true},
		{"failed with a ready pod", Revision{Status: Failed, FinishedAt: noon(), ReadyAt: noon()}, true},
		{"live", Revision{Status: Live, FinishedAt: noon()}, true},
		{"replaced", Revision{Status: Live, FinishedAt: noon()}.Replaced(2), true},
		{"overtaken", first(Revision{Status: RollingOut}.Supersede(2)), false},
		{"failed", Revision{Status: Failed, FinishedAt: noon()}, false},
	}
	for _, tt := range tests {
		if got := tt.r.Worked(); got != tt.worked {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.worked)
		}
	}
}

func TestPrevious(t *testing.T) {
	t.Parallel()
	ready := Revision{Status: Superseded, ReadyAt: noon()}
	overtaken, failed := Revision{Status: Superseded}, Revision{Status: Failed}
	tests := []struct {
		name    string
		history []Revision // oldest first, ending with the current one
		want    int64      // or 0
	}{
		{name: "no history", history: nil, want: 0},
		{name: "only the current revision", history: []Revision{ready}, want: 0},
		{name: "the last with a ready pod", history: []Revision{ready, ready, overtaken, overtaken}, want: 2},
		{name: "none with a ready pod", history: []Revision{overtaken, overtaken, failed, overtaken}, want: 2},
		{name: "the current revision had a ready pod", history: []Revision{overtaken, ready}, want: 1},
		{name: "all failed", history: []Revision{failed, failed, overtaken}, want: 0},
		{name: "failed after a pod was ready", history: []Revision{overtaken, {Status: Failed, ReadyAt: noon()}, overtaken}, want: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			history := func(yield func(Revision, error) bool) {
				for i := len(tt.history) - 1; i >= 0; i-- {
					tt.history[i].Number = int64(i + 1)
					if !yield(tt.history[i], nil) {
						return
					}
				}
			}
			got, ok, err := Previous(history, int64(len(tt.history)))
			if err != nil || got.Number != tt.want || ok != (tt.want != 0) {
				t.Errorf("got revision %d, %v, %v; want %d", got.Number, ok, err, tt.want)
			}
		})
	}
}

func first(r Revision, _ bool) Revision { return r }

func TestOutcome(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		r     Revision
		first bool
		want  Outcome
	}{
		{"the first", Revision{Status: Live, Trigger: Manual}, true, Deployed},
		{"the next", Revision{Status: Live, Trigger: Webhook}, false, Upgraded},
		{"a rollback", Revision{Status: Live, Trigger: Rollback}, false, RolledBack},
		{"a failure", Revision{Status: Failed, Trigger: Rollback}, true, Broke},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := OutcomeFor(tt.r, tt.first); got != tt.want {
				t.Errorf("outcome: got %s", got)
			}
		})
	}
}
