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

// Config is the function's configuration.
type Config struct {
	store.Database
	store.Outbox
	cluster.Connection
	cluster.Routes
	cluster.Accounts

	// CheckerURL is the address at which the ingress calls the checkers, e.g.
	// "https://sluice-checker.sluice-system.svc:8443". The checkers' certificate is issued for
	// its host.
	CheckerURL string `env:"CHECKER_URL, required"`

	// IngressURL is the address for probes of the ingress, e.g.
	// "http://sluice-ingress.traefik.svc:8000". All addresses of its host are probed, at most 16.
	// Use a headless Service, whose addresses are the replicas, and the port of the pods.
	IngressURL string `env:"INGRESS_URL, required"`

	// IngressCAFile is a PEM file of CA certificates to trust for the ingress, in addition to the
	// system's, e.g. "/var/run/sluice/ingress-ca/ca.crt". A missing file adds none.
	IngressCAFile string `env:"INGRESS_CA_FILE"`

	// BaseURL and ExtraHosts contain the hosts of the API and the console, as in the apps function.
	BaseURL    string   `env:"BASE_URL"`
	ExtraHosts []string `env:"EXTRA_HOSTS"`

	// CheckerSecret is the Secret in SYSTEM_NAMESPACE with tls.crt, tls.key and ca.crt. The CA's
	// key is in the Secret "{CHECKER_TLS_SECRET}-ca".
	CheckerSecret string `env:"CHECKER_TLS_SECRET, default=sluice-checker-tls"`

	// Workers is the number of apps that are processed at the same time.
	Workers int `env:"WORKERS, default=16"`

	// ProofPatience limits the wait for the proof of a gate that was just switched; the next
	// resync tries again. By default, Traefik applies changes within 2 s.
	ProofPatience time.Duration `env:"PROOF_PATIENCE, default=8s"`

	// ReproveEvery is the approximate interval between proofs of an engaged gate. Its objects are
	// compared in each resync.
	ReproveEvery time.Duration `env:"REPROVE_EVERY, default=5m"`
}

func (c Config) check() error {
	if c.Workers < 1 || c.ProofPatience <= 0 || c.ReproveEvery <= 0 {
		return errors.New("WORKERS, PROOF_PATIENCE and REPROVE_EVERY must be positive")
	}
	u, err := url.Parse(c.IngressURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("INGRESS_URL %q must be an http or https URL", c.IngressURL)
	}
	if u, err = url.Parse(c.CheckerURL); err != nil || u.Hostname() == "" {
		return fmt.Errorf("CHECKER_URL %q must be a URL", c.CheckerURL)
	}
	return nil
}

//nolint:gochecknoinits // the framework's way
func init() { funcmain.CloudEvent("wiring", newFunction) }

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
