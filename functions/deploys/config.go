package deploys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is what the function reads from its environment.
type Config struct {
	management.Config
	cluster.Connection
	registry.Access

	// ProgressDeadline is how long a rollout may make no progress until its revision
	// is failed (promise D3).
	ProgressDeadline time.Duration `env:"PROGRESS_DEADLINE, default=120s"`

	// FollowEvery is how often a rollout that was just asked for is looked at, so that
	// it is live soon after it is ready and not only with the next tick.
	FollowEvery time.Duration `env:"FOLLOW_EVERY, default=500ms"`

	// Workers bounds apps that a pass works on at the same time.
	Workers int `env:"WORKERS, default=8"`

	store.Outbox

	// Sink takes the events of the installation; Knative's SinkBinding sets it. With one,
	// ends of deployments are announced, EVENTS or not.
	Sink string `env:"K_SINK"`

	// SinkOverrides are attributes for every event, as Knative's SinkBinding gives them:
	// {"extensions":{"name":"value"}}.
	SinkOverrides string `env:"K_CE_OVERRIDES"`

	// LookEvery is how often it is looked for events of other functions that are to be sent.
	LookEvery time.Duration `env:"EVENTS_EVERY, default=5s"`

	// EventSource names this installation in those events.
	EventSource string `env:"EVENT_SOURCE, default=/sluice/deploys"`
}

func (c Config) check() error {
	if c.ProgressDeadline <= 0 || c.FollowEvery <= 0 || c.LookEvery <= 0 || c.Workers < 1 {
		return errors.New("PROGRESS_DEADLINE, FOLLOW_EVERY, EVENTS_EVERY and WORKERS must be positive")
	}
	if c.Sink == "" {
		return nil
	}
	if u, err := url.Parse(c.Sink); err != nil || u.Host == "" {
		return fmt.Errorf("K_SINK %q is no URL", c.Sink)
	}
	return nil
}

// announces tells whether anything is put into the outbox.
func (c Config) announces() bool { return c.Events || c.Sink != "" }

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("deploys", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := cluster.Open(cluster.Options{Kubeconfig: cfg.Kubeconfig, Log: log})
	if err != nil {
		return nil, err
	}
	tags, err := registry.New(cfg.Access, log)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.announces())
	parts := Parts{Store: st, Cluster: cl, Registry: tags, Sessions: identity.NewGuard(keys, st), Log: log}
	if cfg.Sink != "" {
		if parts.Sink, err = buildevent.NewSink(cfg.Sink, cfg.EventSource, cfg.SinkOverrides); err != nil {
			return nil, err
		}
	}
	service, err := New(cfg, parts)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Handler:    service.Handler(),
		Background: service.Background,
		Store:      st,
		Collectors: service.Collectors(),
		Close:      service.Close,
	}, nil
}
