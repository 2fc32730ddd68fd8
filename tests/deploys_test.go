package tests

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func deploy(t *testing.T, s *stacktest.Site, tag string) wire.Deployment {
	t.Helper()
	d, err := s.Client.Deploy(t.Context(), s.Project, s.Env, "hello", image(tag))
	check.OK(t, err)
	return d
}

func rollback(t *testing.T, s *stacktest.Site, revision int64) wire.Deployment {
	t.Helper()
	d, err := s.Client.Rollback(t.Context(), s.Project, s.Env, "hello", revision)
	check.OK(t, err)
	return d
}

func TestRollbacks(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	if _, err := s.Client.Rollback(t.Context(), s.Project, s.Env, "hello", 0); !client.HasCode(err, "no_previous_revision") {
		t.Errorf("rollback of the first revision: got %v, want no_previous_revision", err)
	}
	for revision, tag := range []string{2: "v2", 3: "v3"} {
		if tag == "" {
			continue
		}
		d := deploy(t, s, tag)
		if d.Revision != int64(revision) || d.Trigger != "manual" || !d.Current {
			t.Errorf("got %+v, want the manual revision %d to be current", d, revision)
		}
		s.Runs("hello", image(tag))
		s.Settled("hello", d.Revision, "live")
	}
	d := rollback(t, s, 0)
	if d.Revision != 4 || d.Trigger != "rollback" || d.SourceRevision != 2 || d.Image != image("v2") {
		t.Errorf("rollback to the previous revision: got %+v, want revision 4, from 2", d)
	}
	s.Runs("hello", image("v2"))
	d = rollback(t, s, 1)
	if d.Revision != 5 || d.SourceRevision != 1 {
		t.Errorf("rollback to the first revision: got %+v, want revision 5, from 1", d)
	}
	s.Runs("hello", image("v1"))
	if _, err := s.Client.Rollback(t.Context(), s.Project, s.Env, "hello", 99); !client.HasCode(err, "not_found") {
		t.Errorf("rollback to an unknown revision: got %v, want not_found", err)
	}
	history := s.History("hello")
	var numbers []int64
	current := 0
	for _, d := range history {
		numbers = append(numbers, d.Revision)
		if d.Current {
			current++
		}
	}
	if !slices.Equal(numbers, []int64{5, 4, 3, 2, 1}) || current != 1 || !history[0].Current {
		t.Errorf("history: got %v with %d current, want 5 to 1 with 5 current", numbers, current)
	}
}

func TestConcurrentDeployments(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	const n = 20
	var wg sync.WaitGroup
	revisions := make([]wire.Deployment, n)
	for i := range n {
		wg.Go(func() {
			tag := "r" + string(rune('a'+i))
			d, err := s.Client.Deploy(t.Context(), s.Project, s.Env, "hello", image(tag))
			if err != nil {
				t.Errorf("deploy %s: %v", tag, err)
			}
			revisions[i] = d
		})
	}
	wg.Wait()
	slices.SortFunc(revisions, func(a, b wire.Deployment) int { return int(a.Revision - b.Revision) })
	for i, d := range revisions {
		if d.Revision != int64(i+2) {
			t.Fatalf("revision %d of %d: got %d, want %d", i, n, d.Revision, i+2)
		}
	}
	last := revisions[n-1]
	s.Runs("hello", last.Image)
	s.Settled("hello", last.Revision, "live")
	if e := s.Echo(s.Call("hello").Gets(http.StatusOK)); e.Image != last.Image {
		t.Errorf("got image %s, want %s", e.Image, last.Image)
	}
}

func TestPromotion(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	staging := s.In("staging")
	staging.App("hello")
	deploy(t, staging, "v7")
	staging.Settled("hello", 2, "live")
	d, err := s.Client.Promote(t.Context(), s.Project, s.Env, "hello", "staging", 0)
	check.OK(t, err)
	if d.Trigger != "promotion" || d.Image != image("v7") || d.SourceRevision != 2 || string(d.SourceEnvironment) != "staging" {
		t.Errorf("got %+v, want a promotion of revision 2 of staging", d)
	}
	s.Runs("hello", image("v7"))
}
