package apps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/apisetup"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/registry"
)

const hostMark = "{host}"

// Config is the function's configuration.
type Config struct {
	apisetup.Config
	cluster.Connection
	cluster.Routes
	cluster.Accounts
	cluster.Webhooks
	registry.Access

	// AppsDomain is the domain of default hosts. Its wildcard DNS record points to the ingress.
	AppsDomain string `env:"APPS_DOMAIN, required"`

	// AppHost is the pattern of default hosts, with {app}, {namespace} and {domain}
	// (APPS_DOMAIN). The default pattern has one label below the domain, for a wildcard
	// certificate. With "{app}.{namespace}.{domain}", default hosts in different namespaces
	// always differ. Existing apps keep their hosts.
	AppHost string `env:"APP_HOST, default={app}-{namespace}.{domain}"`

	// AppURL is the pattern of an app's public URL.
	AppURL string `env:"APP_URL, default=https://{host}"`

	// BaseURL is the public address of the API and its webhooks, e.g.
	// "https://sluice.example.com". By default the request's host is used, which is wrong behind
	// a proxy that changes Host. Apps cannot have this host, nor one above or below it. Apps with
	// the same registrable domain are logged: they can set cookies that browsers send here too.
	BaseURL string `env:"BASE_URL"`

	// ExtraHosts are other hosts of the API and the console, treated like BASE_URL.
	ExtraHosts []string `env:"EXTRA_HOSTS"`

	// IngressCAFile is a PEM file of CA certificates to trust for BASE_URL, in addition to the
	// system's, e.g. "/var/run/sluice/ingress-ca/ca.crt". It is read for each webhook test; a
	// missing file adds none.
	IngressCAFile string `env:"INGRESS_CA_FILE"`

	// WiringURL, DeploysURL and BuildsURL are the addresses of those functions. Without an
	// address, that function is not notified and starts work at its next tick.
	WiringURL  string `env:"WIRING_URL"`
	DeploysURL string `env:"DEPLOYS_URL"`
	BuildsURL  string `env:"BUILDS_URL"`

	// Issuers are the OIDC issuers that apps may trust, as in the webhook function.
	Issuers []string `env:"OIDC_ISSUERS"`

	// ReservedHosts cannot be hosts of apps. "example.com" reserves only that host, and
	// ".example.com" every host below it. APPS_DOMAIN is always reserved.
	ReservedHosts []string `env:"RESERVED_HOSTS"`

	// ReservedNamespaces cannot be namespaces of environments. WEBHOOK_NAMESPACE and names that
	// begin with "kube-" are always reserved.
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
		return fmt.Errorf("APPS_DOMAIN %q is below a host in BASE_URL or EXTRA_HOSTS; its apps could set cookies for the console", c.AppsDomain)
	}
	u, err := url.Parse(strings.ReplaceAll(c.AppURL, hostMark, "host"))
	if err != nil || !strings.Contains(c.AppURL, hostMark) || u.Host == "" {
		return fmt.Errorf("APP_URL %q must be a URL that contains %s", c.AppURL, hostMark)
	}
	for name, s := range map[string]string{"WIRING_URL": c.WiringURL, "DEPLOYS_URL": c.DeploysURL, "BUILDS_URL": c.BuildsURL, "BASE_URL": c.BaseURL} {
		if u, err := url.Parse(s); s != "" && (err != nil || u.Host == "") {
			return fmt.Errorf("%s %q must be a URL", name, s)
		}
	}
	if len(c.EntryPoints) == 0 {
		return errors.New("ENTRY_POINTS is empty")
	}
	return nil
}

//nolint:gochecknoinits // the framework's way
func init() { funcmain.HTTP("apps", newFunction) }

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
