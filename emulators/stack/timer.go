package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	reconcileEvery = 10 * time.Second
	rollupEvery    = 60 * time.Second
	pingLimit      = 60 * time.Second // for a function to take one event
	pingType       = "dev.knative.sources.ping"
)

// startTimers sends functions the event of Knative's PingSource now and then.
func (s *Stack) startTimers(life context.Context, list []function) {
	for name, every := range map[string]time.Duration{
		"wiring": reconcileEvery, "deploys": reconcileEvery, "builds": reconcileEvery, "rollup": rollupEvery,
	} {
		if has(list, name) && !slices.Contains(s.o.Untimed, name) {
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
			s.log.Warn("timer event not taken", "function", name, "error", err)
		}
	}
}

// ping sends one CloudEvent in HTTP's binary mode. It is not sent again when it
// fails: the next one comes soon.
func ping(ctx context.Context, url, name string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return fmt.Errorf("ping %s: %w", name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Ce-Specversion", "1.0")
	req.Header.Set("Ce-Id", uuid.NewString())
	req.Header.Set("Ce-Type", pingType)
	req.Header.Set("Ce-Source", "/apis/v1/namespaces/"+systemNamespace+"/pingsources/"+name)
	req.Header.Set("Ce-Time", now.UTC().Format(time.RFC3339Nano))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ping %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 512))
		if err != nil {
			return fmt.Errorf("ping %s: %s: %w", name, resp.Status, err)
		}
		return fmt.Errorf("ping %s: %s: %s", name, resp.Status, body)
	}
	return nil
}
