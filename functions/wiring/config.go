package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
)

// Config is what the function reads from its environment.
type Config struct {
	store.Database
	store.Outbox
	cluster.Connection
	cluster.Routes
	cluster.Accounts

	// CheckerURL is where the ingress asks for decisions, e.g.
	// "https://sluice-checker.sluice-system.svc:8443". Its host is what the checker's
	// certificate is made for.
	CheckerURL string `env:"CHECKER_URL, required"`

	// IngressURL is where gates are proven, e.g. "http://sluice-ingress.traefik.svc:8000". Every
	// address that its host resolves to is asked, at most 16, so a headless Service covers all
	// replicas of the ingress; its port is the pods' own then.
	IngressURL string `env:"INGRESS_URL, required"`

	// IngressCAFile has the authorities, PEM, that vouch for apps' certificates besides
	// the system's, e.g. "/var/run/sluice/ingress-ca/ca.crt". Gates are proven as clients
	// ask, so a certificate is never taken unseen. A missing file adds none.
	IngressCAFile string `env:"INGRESS_CA_FILE"`

	// BaseURL and ExtraHosts name the hosts of the API and the console, as the apps function
	// has them. An app whose host is one of them, or above or below one, gets no route.
	BaseURL    string   `env:"BASE_URL"`
	ExtraHosts []string `env:"EXTRA_HOSTS"`

	// CheckerSecret, in SYSTEM_NAMESPACE, has tls.crt, tls.key and ca.crt; the CA's key is
	// in "{this}-ca".
	CheckerSecret string `env:"CHECKER_TLS_SECRET, default=sluice-checker-tls"`

	// Workers bounds apps that are worked on at the same time. Most of that time is
	// waiting for the ingress.
	Workers int `env:"WORKERS, default=16"`

	// ProofPatience is for how long a gate that was just switched is asked until it
	// answers as it should; Traefik takes up a change within 2 s by default. After
	// that it is the next tick's turn.
	ProofPatience time.Duration `env:"PROOF_PATIENCE, default=8s"`

	// ReproveEvery is how often a gate that is in place is proven again, about. Its
	// objects are compared with every tick, so this only finds what they don't show.
	ReproveEvery time.Duration `env:"REPROVE_EVERY, default=5m"`
}

func (c Config) check() error {
	if c.Workers < 1 || c.ProofPatience <= 0 || c.ReproveEvery <= 0 {
		return errors.New("WORKERS, PROOF_PATIENCE and REPROVE_EVERY must be positive")
	}
	u, err := url.Parse(c.IngressURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("INGRESS_URL %q is no http or https URL", c.IngressURL)
	}
	if u, err = url.Parse(c.CheckerURL); err != nil || u.Hostname() == "" {
		return fmt.Errorf("CHECKER_URL %q is no URL", c.CheckerURL)
	}
	return nil
}

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.CloudEvent("wiring", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	cl, err := cluster.Open(cluster.Options{
		Kubeconfig: cfg.Kubeconfig, Routes: &cfg.Routes, CheckerURL: cfg.CheckerURL, SystemNamespace: cfg.SystemNamespace,
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, cfg.Project)
	if err != nil {
		return nil, err
	}
	st.AnnounceEvents(cfg.Events)
	service, err := New(cfg, st, cl, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{
		Receive:    service.Receive,
		Background: service.Background,
		Store:      st,
		Collectors: service.Collectors(),
		Close:      func(context.Context) error { service.Close(); return nil },
	}, nil
}
