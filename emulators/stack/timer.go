package stack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/uuid"

	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/notify"
)

const (
	reconcileEvery = 10 * time.Second
	rollupEvery    = 60 * time.Second
	pingLimit      = 60 * time.Second
)

func (s *Stack) startTimers(life context.Context) {
	for name, every := range map[string]time.Duration{
		"wiring": reconcileEvery, "deploys": reconcileEvery, "builds": reconcileEvery, "rollup": rollupEvery,
	} {
		if !slices.Contains(s.o.Untimed, name) {
			s.tasks.Go(func() { s.timer(life, name, every) })
		}
	}
}

func (s *Stack) timer(life context.Context, name string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		if err := ping(life, s.functionURL(name), name, time.Now()); err != nil && life.Err() == nil { //nolint:forbidigo // stamps an event
			s.log.Warn("send timer event failed", "function", name, "error", err)
		}
	}
}

// ping sends one event. It does not retry, because the next event follows soon.
func ping(ctx context.Context, url, name string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	e := cloudevents.NewEvent()
	e.SetID(uuid.NewString())
	e.SetType(funcmain.PingType)
	e.SetSource("/apis/v1/namespaces/" + systemNamespace + "/pingsources/" + name)
	e.SetTime(now.UTC())
	if err := e.SetData(cloudevents.ApplicationJSON, struct{}{}); err != nil {
		return fmt.Errorf("ping %s: %w", name, err)
	}
	if err := notify.Post(ctx, http.DefaultClient, url, e); err != nil {
		return fmt.Errorf("ping %s: %w", name, err)
	}
	return nil
}
