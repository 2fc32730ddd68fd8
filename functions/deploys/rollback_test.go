package deploys

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	if d := made(w.post("hello/rollback", "")); d.Trigger != "rollback" || d.SourceRevision != 1 || d.Actor != "ada" {
		t.Errorf("without a number: %+v", d)
	}
	w.within("prod", "3 hello:v1 live", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := made(w.post("hello/rollback", `{}`)); d.SourceRevision != 2 {
		t.Errorf("of a rollback: %+v", d)
	}
	w.becomesLive(4)
	if d := made(w.post("hello/rollback", `{"revision":1}`)); d.SourceRevision != 1 {
		t.Errorf("with a number: %+v", d)
	}
	if d := made(w.post("hello/rollback", `{"revision":5}`)); d.SourceRevision != 5 {
		t.Errorf("to the current one: %+v", d)
	}
	w.within("prod", "6 hello:v1 live", "5 hello:v1 superseded", "4 hello:v2 superseded",
		"3 hello:v1 superseded", "2 hello:v2 superseded", "1 hello:v1 superseded")
	w.runs("hello:v1", 6)
}

// By default, a rollback skips a failed revision. With that revision's number, it deploys it again.
func TestRollbackAndFailedRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config, _ *Parts) { c.ProgressDeadline = brokenAfter })
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	w.deploy("hello:broken")
	w.within("prod", "3 hello:broken failed", "2 hello:v2 live", "1 hello:v1 superseded")
	if m := w.revision(3).Message; m == "" {
		t.Error("the failed revision has no message")
	}
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 2 {
		t.Errorf("from a failed one: %+v", d)
	}
	w.within("prod", "4 hello:v2 live", "3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 2 {
		t.Errorf("past a failed one: %+v", d)
	}
	w.within("prod", "5 hello:v2 live", "4 hello:v2 superseded", "3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
	if d := made(w.post("hello/rollback", `{"revision":3}`)); d.SourceRevision != 3 || d.Image != "hello:broken" {
		t.Errorf("to a failed one: %+v", d)
	}
	w.within("prod", "6 hello:broken failed", "5 hello:v2 live", "4 hello:v2 superseded",
		"3 hello:broken failed", "2 hello:v2 superseded", "1 hello:v1 superseded")
}

func TestRollbackSkipsRevisionsWithoutReadyPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	w.deploy("hello:broken")
	w.deploy("hello:v3")
	w.within("prod", "3 hello:v3 live", "2 hello:broken superseded", "1 hello:v1 superseded")
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 1 {
		t.Errorf("rolled back to %+v, want a copy of revision 1", d)
	}
}

// silent stops responding until it is released. Writes succeed.
type silent struct {
	Cluster
	from    int64 // stops after this revision is applied
	applied atomic.Bool
	release chan struct{}
}

func (c *silent) Workload(ctx context.Context, ref app.Ref) (cluster.Workload, error) {
	if c.from == 0 || c.applied.Load() {
		select {
		case <-c.release:
		case <-ctx.Done():
			return cluster.Workload{}, ctx.Err()
		}
	}
	return c.Cluster.Workload(ctx, ref)
}

func (c *silent) ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error {
	err := c.Cluster.ApplyWorkload(ctx, w, a)
	if err == nil && a.Revision == c.from {
		c.applied.Store(true)
	}
	return err
}

func TestRollbackBeforeAnyPodIsReady(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	w := newWorld(t, func(_ *Config, p *Parts) { p.Cluster = &silent{Cluster: p.Cluster, release: release} })
	w.deploy("hello:v2")
	w.deploy("hello:v3")
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 2 || d.Image != "hello:v2" {
		t.Errorf("rolled back to %+v, want a copy of revision 2", d)
	}
	w.fail(4)
	w.deploy("hello:v5")
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 3 {
		t.Errorf("rolled back to %+v, want a copy of revision 3", d)
	}
}

func TestRollbackToFailedRevisionsIsRefused(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	w := newWorld(t, func(_ *Config, p *Parts) { p.Cluster = &silent{Cluster: p.Cluster, release: release} })
	w.fail(1)
	w.deploy("hello:v2")
	w.post("hello/rollback", "").Refused(http.StatusConflict, problem.NoPreviousRevision)
}

func (w *world) fail(n int64) {
	w.Helper()
	_, err := w.store.UpdateDeployment(w.Context(), w.ref("prod"), n, func(r deploy.Revision) (deploy.Revision, bool) {
		r.Status, r.FinishedAt = deploy.Failed, r.DeployedAt
		return r, true
	})
	check.OK(w, err)
}

// A revision that had a ready pod worked, even if a newer one superseded it before it was live.
func TestRollbackToOvertakenRevisionWithReadyPod(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, func(_ *Config, p *Parts) {
		p.Cluster = &silent{Cluster: p.Cluster, from: 2, release: release}
	})
	w.becomesLive(1)
	w.deploy("hello:v2")
	w.eventually("have a ready pod of revision 2", func() error {
		seen, err := w.cluster.Workload(t.Context(), w.ref("prod"))
		if got := seen.Observation(); err == nil && (got.Revision != 2 || !got.PodReady) {
			err = fmt.Errorf("got %+v", got)
		}
		return err
	})
	w.deploy("hello:broken")
	close(release)
	w.becomes(2, deploy.Revision.Worked)
	if r := w.revision(2); r.Status != deploy.Superseded || !r.FinishedAt.IsZero() {
		t.Errorf("revision 2: %+v, want one that was never live", r)
	}
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 2 {
		t.Errorf("rolled back to %+v, want a copy of revision 2", d)
	}
}

func TestRollbackDuringARollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	w.deploy("hello:broken")
	if d := made(w.post("hello/rollback", "")); d.SourceRevision != 2 {
		t.Errorf("rolled back to %+v", d)
	}
	w.within("prod", "4 hello:v2 live", "3 hello:broken superseded", "2 hello:v2 superseded", "1 hello:v1 superseded")
	w.runs("hello:v2", 4)
}

func TestPromotion(t *testing.T) {
	t.Parallel()
	digest := "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	w := newWorld(t, func(_ *Config, p *Parts) { p.Registry = tags{"hello:v2": digest} })
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v2"}`))
	w.within("staging", "2 hello:v2 live", "1 hello:v1 superseded")
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v3"}`))
	w.within("staging", "3 hello:v3 live", "2 hello:v2 superseded", "1 hello:v1 superseded")
	d := made(w.post("hello/promote", `{"from_environment":"staging"}`))
	if d.Trigger != string(deploy.Promotion) || d.Image != "hello:v3" || d.SourceRevision != 3 || d.SourceEnvironment != "staging" {
		t.Errorf("without a number: %+v", d)
	}
	d = made(w.post("hello/promote", `{"from_environment":"staging","revision":2}`))
	if d.Image != "hello:v2" || string(d.Digest) != digest || d.SourceRevision != 2 || d.SourceEnvironment != "staging" {
		t.Errorf("with a number: %+v", d)
	}
	w.runsWithin("hello:v2@"+digest, 3)
}

func TestPromotionSkipsRevisionsWithoutReadyPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	promote := func(body string) functest.Answer { w.Helper(); return w.post("hello/promote", body) }
	promote(`{"from_environment":"staging"}`).Refused(http.StatusConflict, problem.RevisionNotLive)
	promote(`{"from_environment":"staging","revision":1}`).Refused(http.StatusConflict, problem.RevisionNotLive)
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:v2"}`))
	w.within("staging", "2 hello:v2 live", "1 hello:v1 superseded")
	made(w.as("ada", http.MethodPost, "staging", "hello/deployments", `{"image":"hello:broken"}`))
	promote(`{"from_environment":"staging","revision":3}`).Refused(http.StatusConflict, problem.RevisionNotLive)
	if d := made(promote(`{"from_environment":"staging"}`)); d.SourceRevision != 2 {
		t.Errorf("promoted %+v, want a copy of revision 2", d)
	}
}

func TestRegistriesOfAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.becomesLive(1)
	w.eventually("be live in staging", func() error {
		w.tick()
		if got := w.history("staging")[0]; got != "1 hello:v1 live" {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})
	_, err := w.store.UpdateProject(t.Context(), w.project, func(p app.Project) (app.Project, error) {
		p.Registries = []string{"registry.example.com/shop"}
		return p, nil
	})
	check.OK(t, err)
	for path, body := range map[string]string{
		"hello/deployments": `{"image":"registry.example.com/other/hello:v2"}`,
		"hello/rollback":    `{"revision":1}`,
		"hello/promote":     `{"from_environment":"staging"}`,
	} {
		w.post(path, body).Refused(http.StatusUnprocessableEntity, problem.RegistryNotAllowed)
	}
	w.deploy("registry.example.com/shop/hello:v2")
	w.post("hello/rollback", "").Refused(http.StatusUnprocessableEntity, problem.RegistryNotAllowed)
	w.within("prod", "2 registry.example.com/shop/hello:v2 live", "1 hello:v1 superseded")
}
