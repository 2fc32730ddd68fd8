package deploys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/registry"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is the function's configuration.
type Config struct {
	apisetup.Config
	cluster.Connection
	registry.Access

	// ProgressDeadline is the longest time without progress before a rollout fails (promise D3).
	ProgressDeadline time.Duration `env:"PROGRESS_DEADLINE, default=120s"`

	// FollowEvery is the first interval between checks of a rollout; it grows up to tenfold.
	FollowEvery time.Duration `env:"FOLLOW_EVERY, default=500ms"`

	Workers int `env:"WORKERS, default=8"`

	store.Outbox

	// Sink is the URL to which events are sent. With a sink, the ends of deployments are sent even
	// if EVENTS is not set.
	Sink string `env:"K_SINK"`

	// SinkOverrides are CloudEvents attributes to add to every event, as
	// {"extensions":{"name":"value"}}.
	SinkOverrides string `env:"K_CE_OVERRIDES"`

	// LookEvery is the interval between checks for events of other functions.
	LookEvery time.Duration `env:"EVENTS_EVERY, default=5s"`

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
		return fmt.Errorf("K_SINK %q is not a URL", c.Sink)
	}
	return nil
}

func (c Config) announces() bool { return c.Events || c.Sink != "" }

//nolint:gochecknoinits // required by the functions framework
func init() { funcmain.HTTP("deploys", newFunction) }

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
