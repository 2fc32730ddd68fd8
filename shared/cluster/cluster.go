// Package cluster writes what Sluice keeps in Kubernetes, and is the only one to
// know client-go: an app's Deployment, Service and route, the Middlewares or the policy
// that gate it, and the Secrets that these need.
//
// # Whose fields
//
// Deployments, Services and routes are written by server-side apply with
// the field manager "sluice". An object of that name that is already there is adopted if
// an administrator of the cluster annotated it with sluice.dev/adopt: "true"; else the app
// does not get its name. Of what is adopted its selector, the name of its container and every field that this
// package does not write stay as they are, and others may go on changing those
// (replicas, resources, probes, spec.tls of a route). The fields that this package
// does write are taken by force from whoever had them: the image, the port, the
// environment variable PORT, the labels, and a route's entry points and routes.
// A route's list of routes is one field, so that routes and middlewares which
// somebody else has put into it are gone after adoption.
//
// What a gate is made of and a Secret of Sluice's are not shared with anyone: they are
// replaced as a whole, so that no added field can weaken them.
//
// # Writing after looking
//
// Every write that could open a gate is bound to the version of the object that
// was seen before: look at the objects ([Cluster.Objects]), then read the app's
// document, then write. Whoever acts on an old document writes to an old version
// and gets the problem "conflict". So a late writer cannot undo a newer one.
//
// # Kinds of routes
//
// An installation says what its ingress is told of apps by ([RouteKind]): Traefik's own
// IngressRoute, or the Gateway API's HTTPRoute, whose gate is Traefik's Middlewares or Envoy
// Gateway's SecurityPolicy. What differs between them is behind one interface; what is
// promised of gates is the same, and proven by the same request.
//
// An installation that changes its mind says what it had before. Then an app's new route is
// made beside the old one, gated if the app is, and the old one goes when the ingress has
// taken the new one up, ten seconds have passed and the gate is proven; one that does not
// say the same of the gate as the app's document goes at once. Between the two kinds of
// HTTPRoute, which have the same name, the route is rewritten: it is never open in between,
// but for some seconds it may answer 404 or 500. What is not said to be former is left as
// it is.
//
// # Rights
//
// Each function has a service account of its own (infra/chart/templates/rbac). Cluster-wide it may
// look at workloads and routes. What it may write it can reach only in the namespaces of
// environments: [Cluster.EnsureNamespace] grants those rights there. A namespace is
// an environment's if it carries the label app.kubernetes.io/managed-by=sluice. No
// function reads a Secret there but the copies of the checker's CA, which is public;
// the tokens of webhooks have a namespace that holds nothing else.
//
// # Names
//
// An app's objects are called as the app. Kubernetes before 1.36 wants a Service's
// name to start with a letter; there, an app called "1st" has no Service and its
// creation fails. The Middleware's name ends in a hash of namespace and app,
// because Traefik joins the two with a hyphen and would otherwise take
// "a"+"b-c" and "a-b"+"c" for one.
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

	// callTimeout bounds every call on the API server.
	callTimeout = 10 * time.Second

	// Calls per second that one process makes at most; client-go's own default of 5
	// would make a pass over a few hundred apps take minutes.
	callRate  = 100
	callBurst = 200
)

// What functions read of the cluster from their environment: a function's Config embeds
// those of them that it uses.
type (
	// Connection is where the cluster is.
	Connection struct {
		Kubeconfig string `env:"KUBECONFIG"` // path of a kubeconfig file; empty is the pod's own service account
	}

	// Routes is how the routes of apps are made.
	Routes struct {
		// Kind is what they are. FormerKind is what they were while an installation moves
		// from one kind to another: routes of it are deleted once those of Kind are proven;
		// "" looks for none.
		Kind       RouteKind `env:"ROUTES, default=traefik"`
		FormerKind RouteKind `env:"FORMER_ROUTES"`

		// Gateway is what the routes of the Gateway API attach to, NAMESPACE/NAME or
		// NAMESPACE/NAME/LISTENER, e.g. "traefik/apps/websecure". Its listeners say where
		// apps answer, and over which TLS; for Traefik's own routes the two below do.
		Gateway string `env:"GATEWAY"`

		EntryPoints []string `env:"ENTRY_POINTS, default=web"` // of Traefik, that apps answer on

		// RouteTLS says with which certificate the routes are served over TLS: "default" is
		// Traefik's own choice among those it holds, "resolver:NAME" what its ACME resolver of
		// that name gets, "secret:NAME" a Secret in each app's namespace. With "" a route
		// says nothing of TLS: then its entry point does, or others by the route's spec.tls.
		RouteTLS string `env:"ROUTE_TLS"`

		// CertificateDomain and CertificateHosts bound the hosts for which an ACME resolver
		// requests certificates: those below the apps' domain, and these. "example.com" is
		// that host only, ".example.com" everything below it. Otherwise each developer could
		// use up the limits of the installation's ACME account.
		CertificateDomain string   `env:"APPS_DOMAIN"`
		CertificateHosts  []string `env:"CERTIFICATE_HOSTS"`
	}

	// Accounts are Sluice's own.
	Accounts struct {
		// SystemNamespace is where Sluice's service accounts are, and the Secrets of the
		// checker's certificate. The accounts are granted their rights in each environment's
		// namespace as it is made; empty grants nothing.
		SystemNamespace string `env:"SYSTEM_NAMESPACE, default=sluice-system"`
	}

	// Webhooks are those of apps.
	Webhooks struct {
		// WebhookNamespace is where the tokens of webhooks are kept, and nothing else. It is
		// never an environment's, since functions have rights on every Secret in it.
		WebhookNamespace string `env:"WEBHOOK_NAMESPACE, default=sluice-webhooks"`
	}
)

// Options are what a connection is used for; what is left out it cannot do.
type Options struct {
	Kubeconfig       string  // see [Connection]
	Routes           *Routes // nil where no route is looked at or written
	CheckerURL       string  // e.g. "https://sluice-checker.sluice-system.svc:8443"; "" where no gate is written
	SystemNamespace  string  // see [Accounts]; "" where nothing is to be granted
	WebhookNamespace string  // see [Webhooks]; "" where no token is read or written

	// Log takes what client-go has to say, for the whole process: its own lines would be the
	// only ones that are not like the others. nil leaves that as it is.
	Log *slog.Logger
}

// Cluster is a connection to the Kubernetes API.
type Cluster struct {
	dynamic  dynamic.Interface
	routing  routing // nil where no route is looked at or written
	former   routing // nil where there is none
	checker  string  // without a slash at the end
	system   string  // namespace of the service accounts, "" to grant nothing
	webhooks string  // namespace of the webhooks' tokens
	now      func() time.Time
}

// Open makes a connection. It makes no call yet.
func Open(o Options) (*Cluster, error) {
	if o.Log != nil {
		klog.SetSlogLogger(o.Log)
	}
	cfg, err := find(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
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
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// routings are those of the kind of routes and of the one before, if that is said.
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
		return nil, fmt.Errorf("the kind of routes %q is none of %v", kind, RouteKinds())
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

// find says where the cluster is that a kubeconfig file names, or that the process is in.
// clientcmd would find the latter too, and warn of it with every start of a function.
func find(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// checkURL takes only https: keys never cross the pod network in clear.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("the checker's URL: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("the checker's URL %q must be https://host:port", s)
	}
	return nil
}

// problemOf gives the API server's answer in the words of package problem: conflict
// for a write that lost its race, unavailable when it did not answer. The rest is
// nobody's fault but ours and stays as it is.
func problemOf(err error) error {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return problem.Of(problem.Conflict).Because(err)
	case !errors.As(err, &answer), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err),
		apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return problem.Of(problem.Unavailable).Because(err)
	}
	return err
}
