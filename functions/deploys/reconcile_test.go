package deploys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func (w *world) runsWithin(image string, revision int64) {
	w.Helper()
	w.becomes(revision, live)
	w.runs(image, revision)
}

func (w *world) tick() int {
	w.Helper()
	return w.event(funcmain.PingType, "")
}

func (w *world) event(eventType, subject string) int {
	w.Helper()
	return functest.Event(w, eventType, subject).Send(w, w.handler).Status
}

func (w *world) ticked() bool { w.Helper(); return w.tick() < http.StatusMultipleChoices }

var errKilled = errors.New("killed")

// fault simulates a process that is killed before or after its n-th step.
type fault struct {
	steps atomic.Int64
	at    int64
	after bool
}

func (f *fault) step(do func() error) error {
	n := f.steps.Add(1)
	if n > f.at || n == f.at && !f.after {
		return errKilled
	}
	err := do()
	if n == f.at {
		return errKilled
	}
	return err
}

type faultyCluster struct {
	*cluster.Cluster
	*fault
}

func (c faultyCluster) Workload(ctx context.Context, ref app.Ref) (w cluster.Workload, err error) {
	err = c.step(func() (err error) { w, err = c.Cluster.Workload(ctx, ref); return err })
	return w, err
}

func (c faultyCluster) ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error {
	return c.step(func() error { return c.Cluster.ApplyWorkload(ctx, w, a) })
}

type faultyStore struct {
	Store
	*fault
}

func (s faultyStore) RecordDeploymentOnce(ctx context.Context, ref app.Ref, d hook.CallID, now time.Time, rule func(app.App, deploy.Revision) (deploy.Revision, error)) (r deploy.Revision, fresh bool, err error) {
	err = s.step(func() (err error) { r, fresh, err = s.Store.RecordDeploymentOnce(ctx, ref, d, now, rule); return err })
	return r, fresh, err
}

func (s faultyStore) UpdateDeployment(ctx context.Context, ref app.Ref, n int64, change func(deploy.Revision) (deploy.Revision, bool)) (r deploy.Revision, err error) {
	err = s.step(func() (err error) { r, err = s.Store.UpdateDeployment(ctx, ref, n, change); return err })
	return r, err
}

// After a process is killed at any step, the next tick completes the work, and no revision number
// is lost or used twice.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for at := int64(1); at <= 7; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("step %d, after %v", at, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				w.event(app.DeployRequested, w.ref("prod").String())
				w.runsWithin("hello:v1", 1)
				killed := &fault{at: at, after: after}
				w.start(func(c *Config, p *Parts) {
					p.Store, p.Cluster = faultyStore{w.store, killed}, faultyCluster{w.cluster, killed}
				})
				w.post("hello/deployments", `{"image":"hello:v2"}`)
				// A rollout on a slow machine can end after fewer steps.
				w.eventually("reach the step", func() error {
					if n := killed.steps.Load(); n < at && w.service.queue.Pending(w.ref("prod")) {
						return fmt.Errorf("got %d steps, want %d", n, at)
					}
					return nil
				})
				check.OK(t, w.service.Close(t.Context()))
				w.start(nil)
				a, err := w.store.App(t.Context(), w.ref("prod").Namespace, "hello")
				check.OK(t, err)
				if recorded := at > 1 || after; recorded != (a.Revision == 2) {
					t.Fatalf("unexpected current revision %d", a.Revision)
				}
				w.becomesLive(a.Revision)
				w.runs(a.Image, a.Revision)
				if next := w.deploy("hello:v3"); next.Revision != a.Revision+1 {
					t.Errorf("unexpected next revision %d", next.Revision)
				}
				w.runsWithin("hello:v3", a.Revision+1)
			})
		}
	}
}

type held struct {
	Cluster
	open chan struct{}
}

func (c held) Workload(ctx context.Context, ref app.Ref) (cluster.Workload, error) {
	<-c.open
	return c.Cluster.Workload(ctx, ref)
}

func TestTickLeavesFollowedApps(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	w := newWorld(t, func(_ *Config, p *Parts) { p.Cluster = held{p.Cluster, open} })
	check.OK(t, storetest.DeleteApp(t.Context(), w.store, w.ref("staging")))
	ref := w.ref("prod")
	w.event(app.DeployRequested, ref.String())
	w.tick() // must not wait
	seen, err := w.cluster.Workload(t.Context(), ref)
	check.OK(t, err)
	a, err := w.store.App(t.Context(), ref.Namespace, ref.Name)
	if err != nil || seen.Runs(a) {
		t.Errorf("the tick reconciled the app, error %v", err)
	}
	close(open)
	w.becomesLive(1)
}

func TestDeployRequested(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, err := w.store.RecordDeployment(t.Context(), w.ref("prod"), func(app.App, deploy.Revision) (deploy.Revision, error) {
		return deploy.New("hello:v2", "", deploy.Webhook, "webhook", time.Now().UTC()), nil
	})
	check.OK(t, err)
	if code := w.event(app.DeployRequested, w.ref("prod").String()); code >= 300 {
		t.Errorf("event: got status %d", code)
	}
	w.runsWithin("hello:v2", 2)
	for _, subject := range []string{"", "nothing", "a.b.c", "none.none"} {
		if code := w.event(app.DeployRequested, subject); code >= 300 {
			t.Errorf("event about %q: got status %d", subject, code)
		}
	}
	if code := w.event("some.other.type", "x"); code >= 300 {
		t.Errorf("event of another type: got status %d", code)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy("hello:v2")
	w.runsWithin("hello:v2", 2)
	seen, err := w.cluster.Workload(t.Context(), w.ref("prod"))
	check.OK(t, err)
	other := app.App{Name: "hello", Namespace: w.ref("prod").Namespace, Port: 8080, Image: "hello:other", Revision: 9}
	check.OK(t, w.cluster.ApplyWorkload(t.Context(), seen, other))
	if !w.ticked() {
		t.Error("the tick failed")
	}
	w.runs("hello:v2", 2)
}

type refusing struct{ Cluster }

func (c refusing) ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error {
	if strings.HasSuffix(a.Image, ":refused") {
		a.Port = 70000
	}
	return c.Cluster.ApplyWorkload(ctx, w, a)
}

func TestRefusedByTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *Config, p *Parts) { p.Cluster = refusing{p.Cluster} })
	w.deploy("hello:v2")
	w.runsWithin("hello:v2", 2)
	w.deploy("hello:refused")
	w.within("prod", "3 hello:refused failed", "2 hello:v2 live", "1 hello:v1 superseded")
	if m := w.revision(3).Message; !strings.Contains(m, "70000") {
		t.Errorf("message: got %q", m)
	}
}

type away struct {
	Cluster
	gone *atomic.Bool
}

func (c away) ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error {
	if c.gone.Load() {
		return problem.FromCode(problem.Unavailable)
	}
	return c.Cluster.ApplyWorkload(ctx, w, a)
}

func TestClusterThatIsAway(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	w := newWorld(t, func(c *Config, p *Parts) {
		p.Cluster, c.ProgressDeadline = away{p.Cluster, &gone}, time.Second
	})
	gone.Store(true)
	w.deploy("hello:v2")
	w.becomes(2, func(r deploy.Revision) bool { return r.Message == notResponding })
	if got := w.revision(2).Status; got != deploy.RollingOut {
		t.Errorf("status: got %s", got)
	}
	gone.Store(false)
	w.becomesLive(2)
	w.runs("hello:v2", 2)
}

func TestLateRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config, _ *Parts) { c.ProgressDeadline = time.Nanosecond })
	w.deploy("hello:v2")
	w.becomesLive(2)
}

func (w *world) scale(replicas int) {
	w.Helper()
	kube, err := kubernetes.NewForConfig(clustertest.Config(w))
	check.OK(w, err)
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = kube.AppsV1().Deployments(w.ref("prod").Namespace).Patch(w.Context(), "hello", types.MergePatchType, patch, metav1.PatchOptions{})
	check.OK(w, err)
}

// A live revision stays live while its workload is scaled to zero. A new one neither becomes live
// nor fails until it is scaled up.
func TestWorkloadScaledToZeroIsIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config, _ *Parts) { c.ProgressDeadline = time.Nanosecond })
	becomes := func(what string) {
		t.Helper()
		w.eventually("be "+what, func() error {
			w.tick()
			a, err := w.store.App(t.Context(), w.ref("prod").Namespace, "hello")
			if err == nil && a.Deployed.Status != what {
				err = fmt.Errorf("got %s", a.Deployed.Status)
			}
			return err
		})
	}
	w.becomesLive(1)
	w.scale(0)
	becomes("idle")
	if r := w.revision(1); r.Status != deploy.Live {
		t.Errorf("got %+v, want a live revision", r)
	}
	w.deploy("hello:broken")
	becomes("idle")
	if !w.ticked() { // after the deadline
		t.Error("the tick failed")
	}
	if r := w.revision(2); r.Status != deploy.RollingOut || r.Worked() || !strings.Contains(r.Message, "zero replicas") {
		t.Errorf("got %+v, want a revision that is rolling out", r)
	}
	w.scale(1)
	becomes("failed")
	w.deploy("hello:v3")
	becomes("live")
	w.scale(0)
	becomes("idle")
	w.scale(1)
	becomes("live")
}

func TestDeletedWhileWorkedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.start(func(_ *Config, p *Parts) { p.Cluster = deleting{p.Cluster, w} })
	w.event(app.DeployRequested, w.ref("prod").String())
	w.eventually("delete the workload", func() error {
		seen, err := w.cluster.Workload(t.Context(), w.ref("prod"))
		_, deleted := w.store.App(t.Context(), w.ref("prod").Namespace, "hello")
		if err == nil && (!seen.Absent() || !problem.Is(deleted, problem.NotFound)) {
			err = fmt.Errorf("got absent %t, app %w", seen.Absent(), deleted)
		}
		return err
	})
}

type deleting struct {
	Cluster
	w *world
}

func (c deleting) ApplyWorkload(ctx context.Context, w cluster.Workload, a app.App) error {
	if err := storetest.DeleteApp(ctx, c.w.store, a.Ref()); err != nil {
		return err
	}
	return c.Cluster.ApplyWorkload(ctx, w, a)
}
