package deploys

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	if d := w.post("hello/rollback", "").made(); d.Trigger != "rollback" || d.SourceRevision != 1 || d.Actor != "ada" {
		t.Errorf("without a number: %+v", d)
	}
	w.within("prod", "3 hello:v1 live", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := w.post("hello/rollback", `{}`).made(); d.SourceRevision != 2 {
		t.Errorf("of a rollback: %+v", d)
	}
	w.becomesLive(4)
	if d := w.post("hello/rollback", `{"revision":1}`).made(); d.SourceRevision != 1 {
		t.Errorf("with a number: %+v", d)
	}
	if d := w.post("hello/rollback", `{"revision":5}`).made(); d.SourceRevision != 5 {
		t.Errorf("to the current one: %+v", d)
	}
	w.within("prod", "6 hello:v1 live", "5 hello:v1 superseded", "4 hello:v2 superseded",
		"3 hello:v1 superseded", "2 hello:v2 superseded", "1 hello:v1 superseded")
	w.runs("hello:v1", 6)
}

// A failed revision leaves the one before it serving, is passed over by a rollback
// without a number, and can be tried again with one.
func TestRollbackAndFailedRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config, _ *Parts) { c.ProgressDeadline = brokenAfter })
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	w.deploy("hello:broken")
	w.within("prod", "3 hello:broken failed", "2 hello:v2 live", "1 hello:v1 superseded")
	if m := w.revision(3).Message; m == "" {
		t.Error("the failed revision says nothing")
	}
	if d := w.post("hello/rollback", "").made(); d.SourceRevision != 2 {
		t.Errorf("from a failed one: %+v", d)
	}
	w.within("prod", "4 hello:v2 live", "3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := w.post("hello/rollback", "").made(); d.SourceRevision != 2 {
		t.Errorf("past a failed one: %+v", d)
	}
	w.within("prod", "5 hello:v2 live", "4 hello:v2 superseded", "3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := w.post("hello/rollback", `{"revision":3}`).made(); d.SourceRevision != 3 || d.Image != "hello:broken" {
		t.Errorf("to a failed one: %+v", d)
	}
	w.within("prod", "6 hello:broken failed", "5 hello:v2 live", "4 hello:v2 superseded",
		"3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
}

// What was overtaken before it was live has never been seen to work: a rollback
// without a number passes it over, and says so where there is nothing else.
func TestRollbackPassesOverWhatNeverWasLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy("hello:broken")
	w.deploy("hello:v3")
	w.within("prod", "3 hello:v3 live", "2 hello:broken superseded", "1 hello:v1 superseded")
	if w.revision(1).WasLive() {
		t.Fatal("revision 1 was live; nobody had it rolled out")
	}
	w.post("hello/rollback", "").refused(http.StatusConflict, problem.NoPreviousRevision)
	w.deploy("hello:broken")
	w.deploy("hello:v5")
	w.within("prod", "5 hello:v5 live", "4 hello:broken superseded", "3 hello:v3 superseded", "2 hello:broken superseded", "1 hello:v1 superseded")
	if d := w.post("hello/rollback", "").made(); d.SourceRevision != 3 {
		t.Errorf("rolled back to %+v", d)
	}
}

// A rollback while another revision rolls out goes to before that one.
func TestRollbackDuringARollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	w.deploy("hello:broken")
	if d := w.post("hello/rollback", "").made(); d.SourceRevision != 2 {
		t.Errorf("rolled back to %+v", d)
	}
	w.within("prod", "4 hello:v2 live", "3 hello:broken superseded", "2 hello:v2 superseded", "1 hello:v1 superseded")
	w.runs("hello:v2", 4)
}

func TestPromotion(t *testing.T) {
	t.Parallel()
	digest := "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	w := newWorld(t, func(_ *Config, p *Parts) { p.Registry = tags{"hello:v2": digest} })
	w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v2"}`).made()
	w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v3"}`).made()
	w.within("staging", "3 hello:v3 live", "2 hello:v2 superseded", "1 hello:v1 superseded")
	d := w.post("hello/promote", `{"from_environment":"staging"}`).made()
	if d.Trigger != string(deploy.Promotion) || d.Image != "hello:v3" || d.SourceRevision != 3 {
		t.Errorf("the current one: %+v", d)
	}
	d = w.post("hello/promote", `{"from_environment":"staging","revision":2}`).made()
	if d.Image != "hello:v2" || string(d.Digest) != digest || d.SourceRevision != 2 {
		t.Errorf("a given one: %+v", d)
	}
	w.runsWithin("hello:v2@"+digest, 3)
}
