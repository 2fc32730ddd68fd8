package apps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/management"
	"github.com/sluicegate/sluice/shared/registry"
)

// hostMark stands for an app's host in APP_URL.
const hostMark = "{host}"

// Config is what the function reads from its environment.
type Config struct {
	management.Config
	cluster.Connection
	cluster.Routes
	cluster.Accounts
	cluster.Webhooks
	registry.Access

	// AppsDomain is what apps get their default hosts under: its DNS points, with a
	// wildcard, at the ingress.
	AppsDomain string `env:"APPS_DOMAIN, required"`

	// AppHost is the host that an app gets when it asks for none, with {app}, {namespace}
	// and {domain}, which is APPS_DOMAIN. By default it is one label below the domain, so
	// that a wildcard certificate covers it; "{app}.{namespace}.{domain}" keeps apps of
	// different namespaces from ever getting the same. Apps that are there keep theirs.
	AppHost string `env:"APP_HOST, default={app}-{namespace}.{domain}"`

	// AppURL says where a host is reached from outside: its scheme and port depend
	// on the ingress.
	AppURL string `env:"APP_URL, default=https://{host}"`

	// BaseURL is the API's own address from outside, which pipelines call webhooks
	// below, e.g. "https://sluice.example.com". Without one it is the address by which
	// a caller has reached the API, which is wrong behind a proxy that changes Host.
	// No app gets a host that is this one, below it or above it. A log line reports an app
	// whose host has the same registrable domain: it can fill browsers with cookies that
	// they also send to the console.
	BaseURL string `env:"BASE_URL"`

	// ExtraHosts are further hosts that serve the API and the console, such as an address
	// inside the cluster. Apps may have none of them, as with BASE_URL.
	ExtraHosts []string `env:"EXTRA_HOSTS"`

	// IngressCAFile has the authorities, PEM, that vouch for BASE_URL's certificate besides
	// the system's, e.g. "/var/run/sluice/ingress-ca/ca.crt". It is read for each test of a
	// webhook; a missing file adds none.
	IngressCAFile string `env:"INGRESS_CA_FILE"`

	// WiringURL is where the wiring function takes CloudEvents; without one a
	// switched gate waits for wiring's next tick.
	WiringURL string `env:"WIRING_URL"`

	// DeploysURL is where the deploys function takes CloudEvents; without one a
	// new app's first revision waits for its next tick to be called live.
	DeploysURL string `env:"DEPLOYS_URL"`

	// BuildsURL is where the builds function takes CloudEvents; without one a new git
	// app's first build waits for its next tick.
	BuildsURL string `env:"BUILDS_URL"`

	// Issuers are those whose pipelines an app may trust, as the webhook function has them.
	Issuers []string `env:"OIDC_ISSUERS"`

	// ReservedHosts are refused as hosts of apps: Sluice's own and others on the
	// same ingress. "example.com" is that host alone, ".example.com" everything
	// below it. APPS_DOMAIN itself always is.
	ReservedHosts []string `env:"RESERVED_HOSTS"`

	// ReservedNamespaces are refused to environments: what runs there is not for
	// projects to change. Those that begin with "kube-" always are, and WEBHOOK_NAMESPACE.
	ReservedNamespaces []string `env:"RESERVED_NAMESPACES, default=sluice-system,cert-manager,knative-serving,knative-eventing,tekton-pipelines"`
}

func (c Config) check() error {
	if err := checkHost(c.AppsDomain); err != nil && c.AppsDomain != "localhost" {
		return fmt.Errorf("APPS_DOMAIN %q: %w", c.AppsDomain, err)
	}
	if err := checkAppHost(c.AppHost); err != nil {
		return fmt.Errorf("APP_HOST %q: %w", c.AppHost, err)
	}
	if c.baseHosts().Above("app." + strings.ToLower(c.AppsDomain)) {
		return fmt.Errorf("apps of APPS_DOMAIN %q are below a host of BASE_URL or EXTRA_HOSTS and could set cookies for the console", c.AppsDomain)
	}
	u, err := url.Parse(strings.ReplaceAll(c.AppURL, hostMark, "host"))
	if err != nil || !strings.Contains(c.AppURL, hostMark) || u.Host == "" {
		return fmt.Errorf("APP_URL %q is no URL with %s in it", c.AppURL, hostMark)
	}
	for name, s := range map[string]string{"WIRING_URL": c.WiringURL, "DEPLOYS_URL": c.DeploysURL, "BUILDS_URL": c.BuildsURL, "BASE_URL": c.BaseURL} {
		if u, err := url.Parse(s); s != "" && (err != nil || u.Host == "") {
			return fmt.Errorf("%s %q is no URL", name, s)
		}
	}
	if len(c.EntryPoints) == 0 {
		return errors.New("ENTRY_POINTS is empty")
	}
	return nil
}

// The functions framework finds a function by what its package registers.
//
//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("apps", newFunction) }

// newFunction puts the function together.
func newFunction(ctx context.Context, cfg Config, log *slog.Logger) (*funcmain.Function, error) {
	st, keys, err := cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	cl, err := cluster.Open(cluster.Options{
		Kubeconfig: cfg.Kubeconfig, Routes: &cfg.Routes, SystemNamespace: cfg.SystemNamespace, WebhookNamespace: cfg.WebhookNamespace,
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	tags, err := registry.New(cfg.Access, log)
	if err != nil {
		return nil, err
	}
	service, err := New(cfg, Parts{
		Store: st, Cluster: cl, Registry: tags, Sessions: identity.NewGuard(keys, st), Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: service.Handler(), Store: st, Close: service.Close}, nil
}
