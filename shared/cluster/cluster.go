// Package cluster writes what Sluice keeps in Kubernetes, and is the only one to
// know client-go: an app's Deployment, Service and IngressRoute, the Middleware
// that gates it, and the Secrets that these need.
//
// # Whose fields
//
// Deployments, Services and IngressRoutes are written by server-side apply with
// the field manager "sluice". An object of that name that is already there is
// adopted: its selector, the name of its container and every field that this
// package does not write stay as they are, and others may go on changing those
// (replicas, resources, probes, spec.tls of a route). The fields that this package
// does write are taken by force from whoever had them: the image, the port, the
// environment variable PORT, the labels, and a route's entry points and routes.
// A route's list of routes is one field, so that routes and middlewares which
// somebody else has put into it are gone after adoption.
//
// A Middleware and a Secret of Sluice's are not shared with anyone: they are
// replaced as a whole, so that no added field can weaken them.
//
// # Writing after looking
//
// Every write that could open a gate is bound to the version of the object that
// was seen before: look at the objects ([Cluster.Objects]), then read the app's
// document, then write. Whoever acts on an old document writes to an old version
// and gets the problem "conflict". So a late writer cannot undo a newer one.
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
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/sluicegate/sluice/shared/problem"
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
		EntryPoints []string `env:"ENTRY_POINTS, default=web"` // of Traefik, that apps answer on

		// RouteTLS says with which certificate the routes are served over TLS: "default" is
		// Traefik's own choice among those it holds, "resolver:NAME" what its ACME resolver of
		// that name gets, "secret:NAME" a Secret in each app's namespace. With "" a route
		// says nothing of TLS: then its entry point does, or others by the route's spec.tls.
		RouteTLS string `env:"ROUTE_TLS"`
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
	dynamic     dynamic.Interface
	entryPoints []string       // of routes; empty where none is written
	tls         map[string]any // of routes; nil says nothing of it
	checker     string         // without a slash at the end
	system      string         // namespace of the service accounts, "" to grant nothing
	webhooks    string         // namespace of the webhooks' tokens
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
	if o.CheckerURL != "" {
		if err := checkURL(o.CheckerURL); err != nil {
			return nil, err
		}
	}
	c := &Cluster{checker: o.CheckerURL, system: o.SystemNamespace, webhooks: o.WebhookNamespace}
	if o.Routes != nil {
		if c.entryPoints = o.Routes.EntryPoints; len(c.entryPoints) == 0 {
			return nil, errors.New("routes need at least one entry point")
		}
		if c.tls, err = parseRouteTLS(o.Routes.RouteTLS); err != nil {
			return nil, err
		}
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
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
