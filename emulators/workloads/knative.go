package workloads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/sluicegate/sluice/emulators/internal/program"
)

// The emulation consists of a Service of type ExternalName for each Knative Service, two
// gateways that route by host, and the status. There is no scaling. A Service with another
// owner stays unchanged, and the Knative Service is then not ready.
//
// As in Knative, a Service is public unless its label makes it cluster-local. The Kubernetes
// Service has its labels and annotations, and a Route as its owner. Routes do not exist here. The
// gateways do not use port 80, because it requires a privilege.
const (
	knativeNamespace = "knative-serving"
	localGateway     = "knative-local-gateway"
	publicGateway    = "knative-ingress-gateway"
	gatewayPort      = 8080

	publicDomain    = "knative.example.com" // as if set in config-domain
	visibilityLabel = "networking.knative.dev/visibility"
	clusterLocal    = "cluster-local"
)

func knativeKind() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
}

type knative struct {
	factory       dynamicinformer.DynamicSharedInformerFactory
	local, public *gateway
	rollouts      map[string]rollout
}

type gateway struct {
	address string
	server  *backend
	hosts   atomic.Pointer[map[string]Pod]
}

// startKnative returns nil if the API server does not serve Knative Services.
func (c *Controller) startKnative(ctx context.Context) (*knative, cache.GenericLister, error) {
	_, err := c.dynamic.Resource(knativeKind()).List(ctx, meta.ListOptions{Limit: 1}) // discovery may be outdated
	if kerrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list Knative Services: %w", err)
	}
	k := &knative{rollouts: map[string]rollout{}}
	if k.local, err = c.startGateway(ctx, localGateway); err != nil {
		return nil, nil, err
	}
	if k.public, err = c.startGateway(ctx, publicGateway); err != nil {
		return nil, nil, err
	}
	k.factory = dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	informer := k.factory.ForResource(knativeKind())
	if _, err := informer.Informer().AddEventHandler(c.changes()); err != nil {
		return nil, nil, fmt.Errorf("watch Knative Services: %w", err)
	}
	k.factory.Start(ctx.Done())
	return k, informer.Lister(), nil
}

func (c *Controller) startGateway(ctx context.Context, name string) (*gateway, error) {
	address, err := c.makeGateway(ctx, name)
	if err != nil {
		return nil, err
	}
	g := &gateway{address: address, server: &backend{ended: make(chan struct{})}}
	g.hosts.Store(&map[string]Pod{})
	if err := g.server.start(ctx, net.JoinHostPort(address, strconv.Itoa(gatewayPort)), g.find, c.log); err != nil {
		return nil, fmt.Errorf("start Knative's gateway %s: %w", name, err)
	}
	return g, nil
}

func (c *Controller) makeGateway(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
	defer cancel()
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: knativeNamespace}}
	if _, err := c.api.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{}); err != nil && !kerrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create Knative's namespace: %w", err)
	}
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Name: "http2", Port: gatewayPort}}},
	}
	made, err := c.api.CoreV1().Services(knativeNamespace).Create(ctx, service, meta.CreateOptions{})
	if kerrors.IsAlreadyExists(err) {
		made, err = c.api.CoreV1().Services(knativeNamespace).Get(ctx, name, meta.GetOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("create Knative's gateway %s: %w", name, err)
	}
	return made.Spec.ClusterIP, nil
}

func (g *gateway) find(r *http.Request) (Pod, bool) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	pod, ok := (*g.hosts.Load())[host]
	return pod, ok
}

func (k *knative) close() {
	k.local.server.close()
	k.public.server.close()
	k.factory.Shutdown()
}

func localHost(s *unstructured.Unstructured) string {
	return s.GetName() + "." + s.GetNamespace() + ".svc.cluster.local"
}

func hostOf(s *unstructured.Unstructured) string {
	if s.GetLabels()[visibilityLabel] == clusterLocal {
		return localHost(s)
	}
	return s.GetName() + "." + s.GetNamespace() + "." + publicDomain
}

// makePlaceholder creates or updates the Kubernetes Service of a Knative Service. It returns
// false if a Service with another owner exists.
func (c *Controller) makePlaceholder(ctx context.Context, s *unstructured.Unstructured, services []*core.Service) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
	defer cancel()
	desired, client := c.placeholder(s), c.api.CoreV1().Services(s.GetNamespace())
	for _, is := range services {
		if is.Namespace != s.GetNamespace() || is.Name != s.GetName() || is.DeletionTimestamp != nil {
			continue
		}
		if owner := meta.GetControllerOf(is); owner == nil || owner.UID != s.GetUID() {
			return false, nil
		}
		changed := is.DeepCopy()
		changed.Labels = labels.Merge(is.Labels, desired.Labels)
		changed.Annotations = labels.Merge(is.Annotations, desired.Annotations)
		if labels.Equals(is.Labels, changed.Labels) && labels.Equals(is.Annotations, changed.Annotations) {
			return true, nil
		}
		if _, err := client.Update(ctx, changed, meta.UpdateOptions{}); err != nil && !kerrors.IsNotFound(err) && !kerrors.IsConflict(err) {
			return true, fmt.Errorf("label the Service of Knative Service %s: %w", s.GetName(), err)
		}
		return true, nil
	}
	_, err := client.Create(ctx, desired, meta.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) && !kerrors.HasStatusCause(err, core.NamespaceTerminatingCause) {
		return false, fmt.Errorf("create the Service of Knative Service %s: %w", s.GetName(), err)
	}
	return err == nil, nil
}

func (c *Controller) placeholder(s *unstructured.Unstructured) *core.Service {
	controller, protocol := true, "kubernetes.io/h2c"
	carried := labels.Merge(s.GetLabels(), labels.Set{"serving.knative.dev/service": s.GetName(), "serving.knative.dev/route": s.GetName()})
	delete(carried, visibilityLabel)
	return &core.Service{
		ObjectMeta: meta.ObjectMeta{
			Name: s.GetName(), Labels: carried, Annotations: s.GetAnnotations(),
			OwnerReferences: []meta.OwnerReference{{
				APIVersion: s.GetAPIVersion(), Kind: "Route", Name: s.GetName(), UID: s.GetUID(), Controller: &controller, BlockOwnerDeletion: &controller,
			}},
		},
		Spec: core.ServiceSpec{
			Type: core.ServiceTypeExternalName, ExternalName: c.knative.local.address,
			Ports: []core.ServicePort{{Name: "http2", AppProtocol: &protocol, Port: gatewayPort}},
		},
	}
}

// collect deletes Services without a Knative Service, as the garbage collector does.
func (c *Controller) collect(ctx context.Context, services []*core.Service, existing map[string]bool) (failed error) {
	for _, s := range services {
		owner := meta.GetControllerOf(s)
		if owner == nil || !strings.HasPrefix(owner.APIVersion, knativeKind().Group+"/") || existing[string(owner.UID)] {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, program.CallLimit)
		err := c.api.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, meta.DeleteOptions{})
		cancel()
		if err != nil && !kerrors.IsNotFound(err) {
			failed = errors.Join(failed, fmt.Errorf("delete the Service of Knative Service %s: %w", owner.Name, err))
		}
	}
	return failed
}

func listKnative(lister cache.GenericLister) ([]*unstructured.Unstructured, error) {
	objects, err := lister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list Knative Services: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, o := range objects {
		if s, ok := o.(*unstructured.Unstructured); ok && s.GetDeletionTimestamp() == nil {
			all = append(all, s)
		}
	}
	return all, nil
}
