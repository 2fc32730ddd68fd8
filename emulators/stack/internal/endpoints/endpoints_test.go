package endpoints_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/emulators/stack/internal/endpoints"
	"github.com/sluicegate/sluice/tests/check"
)

type process struct{ up atomic.Bool }

func (p *process) probe(context.Context) error {
	if p.up.Load() {
		return nil
	}
	return errors.New("not ready")
}

func TestList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes [][]string
		l := endpoints.New(slog.New(slog.DiscardHandler), func(ready []string) { changes = append(changes, ready) })
		ctx, end := context.WithCancel(t.Context())
		var a, b process
		a.up.Store(true)
		l.Add(ctx, endpoints.Pod{Name: "a", Probe: a.probe})
		synctest.Wait()
		l.Add(ctx, endpoints.Pod{Name: "b", Probe: b.probe})
		synctest.Wait()
		if !l.Ready("a") || l.Ready("b") || l.Ready("c") {
			t.Error("the first probe did not run immediately")
		}
		b.up.Store(true)
		time.Sleep(endpoints.Period)
		synctest.Wait()
		a.up.Store(false)
		time.Sleep(endpoints.Period)
		synctest.Wait()
		l.Remove("b")
		time.Sleep(10 * endpoints.Period)
		synctest.Wait()
		want := [][]string{{"a"}, {"a", "b"}, {"b"}, nil}
		check.Equal(t, "changes", want, changes)
		end()
		l.Wait()
	})
}

func TestRemoveDuringProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last []string
		l := endpoints.New(slog.New(slog.DiscardHandler), func(ready []string) { last = ready })
		ctx, end := context.WithCancel(t.Context())
		l.Add(ctx, endpoints.Pod{Name: "slow", Probe: func(context.Context) error {
			time.Sleep(endpoints.Period / 2)
			return nil
		}})
		time.Sleep(endpoints.Period / 4)
		l.Remove("slow")
		time.Sleep(endpoints.Period)
		if len(last) != 0 {
			t.Errorf("got ready pods %v, want none", last)
		}
		end()
		l.Wait()
	})
}
