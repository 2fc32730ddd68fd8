// Command echo is the app in all images of registry.example, as on the local stack.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/workloads"
)

// drain is the time between SIGTERM and the shutdown. The pod leaves the endpoints in that time.
const drain = 3 * time.Second

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(drain, end) })
	id := &identity{url: os.Getenv("IDENTITY_URL"), log: log}
	if err := workloads.Serve(life, net.JoinHostPort("", cmp.Or(os.Getenv("PORT"), "8080")), id.get, log); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

type identity struct {
	url string
	log *slog.Logger

	mu    sync.Mutex
	known *workloads.Pod
}

func (i *identity) get(r *http.Request) (workloads.Pod, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		pod, err := i.ask(r.Context())
		if err != nil {
			i.log.Warn("request pod identity failed", "error", err)
			return workloads.Pod{}, true
		}
		i.known = &pod
	}
	return *i.known, true
}

func (i *identity) ask(ctx context.Context) (pod workloads.Pod, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url, nil)
	if err != nil {
		return pod, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return pod, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return pod, fmt.Errorf("GET %s: %s", i.url, resp.Status)
	}
	return pod, json.NewDecoder(resp.Body).Decode(&pod)
}
