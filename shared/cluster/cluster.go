// Package cluster manages Sluice's objects in Kubernetes: the Deployment, Service and route of
// each app, the objects of its gate, and Secrets. No other function or shared package calls the
// Kubernetes API.
//
// # Ownership
//
// Deployments, Services and routes are written by server-side apply with the field manager
// "sluice". An app adopts an existing object with its name only if a cluster administrator has set
// the annotation sluice.dev/adopt: "true" on it. An adopted object keeps its selector, its
// container's name, and all fields that this package does not write, such as replicas, resources,
// probes and spec.tls.
//
// Gate objects and Sluice's Secrets are replaced as a whole, so that no added field can weaken them.
//
// # Concurrent writers
//
// A write that could open a gate fails if the object has changed since it was read. Callers
// first read the objects ([Cluster.Objects]), then the app's document, and then write. A caller
// with an outdated document therefore gets a conflict problem.
//
// # Permissions
//
// Each function has its own service account (infra/chart/templates/rbac). It can read workloads
// and routes in the whole cluster, but write only in the namespaces of environments, where
// [Cluster.EnsureNamespace] grants it the rights. These namespaces have the label
// app.kubernetes.io/managed-by=sluice. The only Secrets that functions read there are the copies
// of the checkers' CA.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/span"
)

const (
	fieldManager = "sluice"

	callTimeout = 10 * time.Second

	// Calls per second of one process. With client-go's default of 5, a resync would take minutes.
	callRate  = 100
	callBurst = 200
)

type (
	// Connection locates the cluster.
	Connection struct {
		Kubeconfig string `env:"KUBECONFIG"` // path of a kubeconfig file; default: the pod's service account
	}

	// Routes configures the routes of apps.
	Routes struct {
		// Kind is the kind of routes. FormerKind is the previous kind while an installation
		// moves to another kind, or "". A former route is deleted once the new one is proven.
		Kind       RouteKind `env:"ROUTES, default=traefik"`
		FormerKind RouteKind `env:"FORMER_ROUTES"`

		// Gateway is the parent of HTTPRoutes, as NAMESPACE/NAME or NAMESPACE/NAME/LISTENER, e.g.
		// "traefik/apps/websecure". Its listeners determine addresses and certificates.
		Gateway string `env:"GATEWAY"`

		EntryPoints []string `env:"ENTRY_POINTS, default=web"`

		// RouteTLS selects the certificates: "default" is Traefik's default certificate,
		// "resolver:NAME" an ACME resolver of Traefik, and "secret:NAME" a Secret in each app's
		// namespace. If it is empty, the configuration of the entry point applies, or a spec.tls
		// that others have set.
		RouteTLS string `env:"ROUTE_TLS"`

		// CertificateDomain and CertificateHosts limit the hosts for which an ACME resolver
		// requests certificates, so that developers cannot exhaust the ACME account's rate limits.
		// In CertificateHosts, "example.com" is only that host, ".example.com" every host below it.
		CertificateDomain string   `env:"APPS_DOMAIN"`
		CertificateHosts  []string `env:"CERTIFICATE_HOSTS"`
	}

	// Accounts configures Sluice's service accounts.
	Accounts struct {
		// SystemNamespace is the namespace of Sluice's service accounts and of the checkers'
		// certificate. If it is empty, no rights are granted.
		SystemNamespace string `env:"SYSTEM_NAMESPACE, default=sluice-system"`
	}

	// Webhooks configures the apps' webhooks.
	Webhooks struct {
		// WebhookNamespace is the namespace of the webhook tokens. It must contain no other
		// Secrets, because functions can read and write all of them.
		WebhookNamespace string `env:"WEBHOOK_NAMESPACE, default=sluice-webhooks"`
	}
)

// Options configures [Open]. Operations whose option is empty are not available.
type Options struct {
	Kubeconfig       string
	Routes           *Routes
	CheckerURL       string // e.g. "https://sluice-checker.sluice-system.svc:8443"; "" if gates are not written
	SystemNamespace  string
	WebhookNamespace string

	// Log receives client-go's log messages, for the whole process; nil leaves them unchanged.
	Log *slog.Logger
}

// Cluster is a connection to the Kubernetes API.
type Cluster struct {
	dynamic  dynamic.Interface
	routing  routing // nil if routes are neither read nor written
	former   routing
	checker  string
	system   string
	webhooks string
	now      func() time.Time
}

// Open returns a Cluster for the options. It does not call the API server.
func Open(o Options) (*Cluster, error) {
	if o.Log != nil {
		klog.SetSlogLogger(o.Log)
	}
	cfg, err := restConfig(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read cluster configuration: %w", err)
	}
	cfg.QPS, cfg.Burst = callRate, callBurst
	cfg.UserAgent = fieldManager
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return span.Transport(rt, "kubernetes", true) })
	if o.CheckerURL != "" {
		if err := checkURL(o.CheckerURL); err != nil {
			return nil, err
		}
	}
	c := &Cluster{checker: o.CheckerURL, system: o.SystemNamespace, webhooks: o.WebhookNamespace, now: time.Now}
	if o.Routes != nil {
		if c.routing, c.former, err = o.Routes.routings(o.CheckerURL); err != nil {
			return nil, err
		}
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("create cluster client: %w", err)
	}
	return c, nil
}

func (r Routes) routings(checker string) (present, former routing, err error) {
	if present, err = r.routing(cmp.Or(r.Kind, TraefikRoutes), checker); err != nil || r.FormerKind == "" || r.FormerKind == r.Kind {
		return present, nil, err
	}
	former, err = r.routing(r.FormerKind, checker)
	return present, former, err
}

func (r Routes) routing(kind RouteKind, checker string) (routing, error) {
	gate := middlewares{checker}
	if kind == TraefikRoutes {
		return newIngressRoutes(r, gate)
	}
	if !slices.Contains(RouteKinds(), kind) {
		return nil, fmt.Errorf("unknown kind of routes %q, must be one of %v", kind, RouteKinds())
	}
	routes, err := newHTTPRoutes(r.Gateway)
	if err != nil {
		return nil, err
	}
	if kind == GatewayEnvoyRoutes {
		return gatewayEnvoy{routes, checker}, nil
	}
	return gatewayTraefik{routes, gate}, nil
}

// restConfig avoids clientcmd's fallback to the pod's service account, which logs a warning.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// checkURL accepts only https: API keys must never cross the pod network in plain text.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("checker URL: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("checker URL %q must be https://host:port", s)
	}
	return nil
}

// problemOf converts an error of the API server: a lost race to a conflict problem, and a missing
// or overloaded API server to an unavailable problem.
func problemOf(err error) error {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return problem.FromCode(problem.Conflict).WithCause(err)
	case !errors.As(err, &answer), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return problem.FromCode(problem.Unavailable).WithCause(err)
	}
	return err
}
