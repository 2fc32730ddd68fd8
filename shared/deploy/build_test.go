package deploy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/shared/app"
)

func asked() Build { return NewBuild(app.GitSource{Branch: "main"}, "abc", Webhook, "webhook", noon()) }

func TestObserveBuild(t *testing.T) {
	t.Parallel()
	seen := asked()
	seen.RunUID, seen.Status, seen.Seen = "a", Running, []string{"a/started"}
	final := seen
	final.Status = BuildFailed
	tests := []struct {
		name    string
		b       Build
		run     Run
		status  BuildStatus
		changed bool
	}{
		{"started", asked(), Run{UID: "a", Event: "started"}, Running, true},
		{"started again", seen, Run{UID: "a", Event: "started"}, Running, false},
		{"running", seen, Run{UID: "a", Event: "running"}, Running, true},
		{"another run's", seen, Run{UID: "b", Event: "failed", Done: true}, Running, false},
		{"failed", seen, Run{UID: "a", Event: "failed", Done: true}, BuildFailed, true},
		{"failed before it had started", asked(), Run{UID: "a", Event: "failed", Done: true}, BuildFailed, true},
		{"no image", seen, Run{UID: "a", Done: true, OK: true}, BuildFailed, true},
		{"built", seen, Run{UID: "a", Done: true, OK: true, Image: "hello:b1", Commit: whole("abc")}, Running, true},
		{"after the end", final, Run{UID: "a", Event: "running"}, BuildFailed, false},
		{"success after the end", final, Run{UID: "a", Done: true, OK: true, Image: "hello:b1"}, BuildFailed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, changed := tt.b.Observe(tt.run, noon())
			if got.Status != tt.status || changed != tt.changed {
				t.Errorf("%s, changed %v", got.Status, changed)
			}
		})
	}
}

func TestDeploys(t *testing.T) {
	t.Parallel()
	git := app.App{GitSource: &app.GitSource{Branch: "main"}}
	b := asked()
	b.Number, b.Image, b.Digest, b.Note = 4, "hello:b4", "sha256:4", "A note."
	manual := b
	manual.Trigger = Manual
	if _, rev, _ := manual.Deploys(git, Revision{}, noon()); rev.Trigger != Manual {
		t.Errorf("trigger of an operator's build: got %s", rev.Trigger)
	}
	tests := []struct {
		name    string
		a       app.App
		newest  int64
		held    int64
		deploys bool
		status  BuildStatus
	}{
		{"the first", git, 0, 0, true, Succeeded},
		{"after an older one", git, 3, 0, true, Succeeded},
		{"after a newer one", git, 5, 0, false, BuildSuperseded},
		{"asked for after a rollback", git, 3, 3, true, Succeeded},
		{"asked for before a rollback", git, 3, 4, false, BuildSuperseded},
		{"long before a rollback", git, 3, 9, false, BuildSuperseded},
		{"detached", app.App{}, 3, 0, false, BuildSuperseded},
		{"another repository", app.App{GitSource: &app.GitSource{Repository: "other", Branch: "main"}}, 3, 0, false, BuildSuperseded},
		{"another branch", app.App{GitSource: &app.GitSource{Branch: "dev"}}, 3, 0, false, BuildSuperseded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			done, rev, deploys := b.Deploys(tt.a, Revision{NewestBuild: tt.newest, HeldBuild: tt.held}, noon())
			if deploys != tt.deploys || done.Status != tt.status || !done.FinishedAt.Equal(noon()) {
				t.Errorf("%v, %+v", deploys, done)
			}
			if deploys && (rev.Image != "hello:b4" || rev.Build != 4 || rev.Note != "A note." || rev.Trigger != Webhook || rev.Commit != "abc") {
				t.Errorf("revision %+v", rev)
			}
		})
	}
}

func TestRunName(t *testing.T) {
	t.Parallel()
	b := asked()
	b.Number = 999_999
	ref := app.Ref{Namespace: "shop-prod", Name: "a123456789b123456789c123456789d123456789"}
	if n := len(b.RunName(ref)); n > 63 {
		t.Errorf("%s: got %d characters", b.RunName(ref), n)
	}
	later := b
	later.RequestedAt = noon().Add(time.Microsecond)
	if b.RunName(ref) == later.RunName(ref) {
		t.Error("two builds have the same run name")
	}
}

func TestCommitOfBuild(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, asked, built string
		says               []string // parts of the message, if the build fails
	}{
		{"the one", whole("abc1"), whole("abc1"), nil},
		{"the one of a SHA-256 repository", whole("abc1") + strings.Repeat("0", 24), whole("abc1") + strings.Repeat("0", 24), nil},
		{"that begins so", "abc1", whole("abc1"), nil},
		{"the branch's head", "", whole("abc1"), nil},
		{"no commits", "", "", nil},
		{"another", whole("abc1"), whole("abc2"), []string{whole("abc1"), whole("abc2")}},
		{"that begins otherwise", "abc1", whole("abc2"), []string{"abc1", whole("abc2")}},
		{"none", "abc1", "", []string{"abc1"}},
		{"its first digits", whole("abc1"), "abc1", []string{`"abc1"`}},
		{"no hash", "", "main", []string{`"main"`}},
		{"no hash of that length", "", strings.Repeat("a", 41), []string{strings.Repeat("a", 41)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := asked()
			b.Commit = tt.asked
			b, _ = b.Observe(Run{UID: "a", Done: true, OK: true, Image: "hello:b1", Commit: tt.built}, noon())
			if tt.says == nil {
				if b.Final() || b.Commit != tt.built {
					t.Errorf("%+v, want the commit %s", b, tt.built)
				}
				return
			}
			if b.Status != BuildFailed || b.Commit != tt.asked || b.Image != "" {
				t.Errorf("%+v", b)
			}
			for _, s := range tt.says {
				if !strings.Contains(b.Message, s) {
					t.Errorf("message: got %q, want it to contain %s", b.Message, s)
				}
			}
		})
	}
}

func whole(begin string) string { return begin + strings.Repeat("0", 40-len(begin)) }

// For any order and repetition of events, builds deploy in ascending order, and the newest
// successful one last.
func TestNewestBuildWinsInAnyOrder(t *testing.T) {
	t.Parallel()
	git := app.App{GitSource: &app.GitSource{Branch: "main"}}
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 5).Draw(t, "builds")
		builds := make([]Build, count)
		succeeds := make([]bool, count)
		var events []Run
		for i := range builds {
			builds[i] = asked()
			builds[i].Number = int64(i + 1)
			succeeds[i] = rapid.Bool().Draw(t, "succeeds")
			uid := fmt.Sprint(i)
			end := Run{UID: uid, Event: "failed", Done: true}
			if succeeds[i] {
				end = Run{UID: uid, Event: "successful", Done: true, OK: true, Image: "hello:b" + uid, Commit: whole("abc")}
			}
			events = append(events, Run{UID: uid, Event: "started"}, Run{UID: uid, Event: "running"}, end)
		}
		events = append(events, rapid.SliceOfN(rapid.SampledFrom(events), 0, 10).Draw(t, "again")...)
		events = rapid.Permutation(events).Draw(t, "order")
		var current Revision
		var deployed []int64
		for _, e := range events {
			var i int
			if _, err := fmt.Sscan(e.UID, &i); err != nil {
				t.Fatal(err)
			}
			b, changed := builds[i].Observe(e, noon())
			if changed && e.Done && !b.Final() {
				done, rev, deploys := b.Deploys(git, current, noon())
				b = done
				if deploys {
					current = rev.After(current, 0, int64(count))
					deployed = append(deployed, b.Number)
				}
			}
			builds[i] = b
		}
		newest := int64(0)
		for i, b := range builds {
			if !b.Final() {
				t.Fatalf("build %d: got status %s", b.Number, b.Status)
			}
			if succeeds[i] {
				newest = b.Number
			}
		}
		if current.Build != newest {
			t.Fatalf("deployed build: got %d, want %d", current.Build, newest)
		}
		for i := 1; i < len(deployed); i++ {
			if deployed[i] <= deployed[i-1] {
				t.Fatalf("deployed builds: got %v, want ascending numbers", deployed)
			}
		}
	})
}

// For any order of events, a build deploys only if it was requested after the last rollback and
// no newer one is deployed.
func TestRollbackHoldsOlderBuilds(t *testing.T) {
	t.Parallel()
	git := app.App{GitSource: &app.GitSource{Branch: "main"}}
	rapid.Check(t, func(t *rapid.T) {
		var current Revision
		var open []Build
		asked, rolledBackAt, newest := int64(0), int64(0), int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch step := rapid.SampledFrom([]string{"ask", "end", "roll back", "promote"}).Draw(t, "step"); {
			case step == "ask":
				asked++
				b := NewBuild(*git.GitSource, "", Webhook, "webhook", noon())
				b.Number, b.Image = asked, "hello:b"
				open = append(open, b)
			case step == "end" && len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "build")
				b := open[i]
				open = append(open[:i:i], open[i+1:]...)
				done, rev, deploys := b.Deploys(git, current, noon())
				if want := b.Number > rolledBackAt && b.Number > newest; deploys != want || !done.Final() || (done.Status == Succeeded) != want {
					t.Fatalf("build %d, rolled back after %d, newest %d: deploys %t, %s", b.Number, rolledBackAt, newest, deploys, done.Status)
				}
				if deploys {
					newest, current = b.Number, rev.After(current, 0, asked)
				}
			case step == "roll back":
				rolledBackAt, current = asked, New("hello:v1", "", Rollback, "ada", noon()).After(current, 0, asked)
			case step == "promote":
				current = New("hello:v2", "", Promotion, "ada", noon()).After(current, 0, asked)
			}
		}
	})
}
