package rollup

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/tests/functest"
)

func post(t *testing.T, svc *Service, kind string) int {
	t.Helper()
	c := functest.Event(t, kind, "")
	c.Body = `{}`
	c.Header.Set("Ce-Source", "/apis/v1/namespaces/sluice/pingsources/rollup")
	return c.Send(t, funcmain.Events(functest.Quiet(), svc.Receive)).Status
}

func memory() (*Service, *documents) {
	now := time.Date(2024, 3, 3, 12, 0, 0, 0, time.UTC)
	d := newDocuments(func() time.Time { return now })
	svc := service(nil, now)
	svc.store = d
	return svc, d
}

func TestEvents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind string
		fault      fault
		code       int
		runs       bool
	}{
		{"a ping runs", "dev.knative.sources.ping", none, 2, true},
		{"a failed run is tried again", "dev.knative.sources.ping", lost, 5, true},
		{"another event is taken and ignored", "dev.tekton.event.pipelinerun.started.v1", none, 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			svc, d := memory()
			runs := false
			d.before = func(bool) fault { runs = true; return tt.fault }
			if code := post(t, svc, tt.kind); code/100 != tt.code || runs != tt.runs {
				t.Errorf("status: got %d, runs: %v", code, runs)
			}
		})
	}
}

func TestPingDuringARun(t *testing.T) {
	t.Parallel()
	svc, d := memory()
	calls := 0
	d.before = func(bool) fault {
		if calls++; calls == 1 {
			if code := post(t, svc, funcmain.PingType); code/100 != 2 {
				t.Errorf("status: got %d", code)
			}
			if _, err := svc.Run(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("error: got %v", err)
			}
		}
		return none
	}
	rollUp(t, svc)
}

func TestRunIsBounded(t *testing.T) {
	t.Parallel()
	svc, d := memory()
	svc.cfg.Run = 0
	d.counters["x"] = usage.Counter{Day: day(t, "2024-03-03"), Source: "a-1", Counts: usage.Packed(nil).Pack("aaaaaaaa", one("aaaaaaaa").Totals)}
	if _, err := svc.Run(t.Context()); err == nil {
		t.Error("run with an expired timeout: got no error")
	}
}
