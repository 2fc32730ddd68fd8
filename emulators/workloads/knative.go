package workloads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Knative as seen from outside: a Service of type ExternalName for each Knative Service,
// which names the gateway; the gateway, which finds the service by its host; and the
// status, with the revision that was made last and the one that is ready. A Service of
// that name that is somebody else's is left alone, and the Knative Service is not ready
// then. There is no scaling: what is ready serves.
//
// The gateway's port is not Knative's 80, which takes a privilege here.
const (
	knativeNamespace = "knative-serving"
	gatewayName      = "knative-local-gateway"
	gatewayPort      = 8080
)

func knativeKind() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
}

// knative is what the controller keeps of Knative.
type knative struct {
	factory  dynamicinformer.DynamicSharedInformerFactory
	address  string // cluster IP of the gateway
	gateway  *backend
	rollouts map[string]rollout // by namespace/name; only Run's goroutine uses it

	mu    sync.Mutex
	hosts map[string]Pod // what serves, by host
}

// startKnative starts the gateway and watches Knative Services; nil where the API
// server does not serve them.
func (c *Controller) startKnative(ctx context.Context) (*knative, cache.GenericLister, error) {
	_, err := c.discovery.ServerResourcesForGroupVersion(knativeKind().GroupVersion().String())
	if kerrors.IsNotFound(err) || discovery.IsGroupDiscoveryFailedError(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look for Knative: %w", err)
	}
	k := &knative{rollouts: map[string]rollout{}, hosts: map[string]Pod{}, gateway: &backend{ended: make(chan struct{})}}
	if k.address, err = c.makeGateway(ctx); err != nil {
		return nil, nil, err
	}
	if err := k.gateway.start(ctx, net.JoinHostPort(k.address, strconv.Itoa(gatewayPort)), k.find, c.log); err != nil {
		return nil, nil, fmt.Errorf("start Knative's gateway: %w", err)
	}
	k.factory = dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	informer := k.factory.ForResource(knativeKind())
	if _, err := informer.Informer().AddEventHandler(c.changes()); err != nil {
		return nil, nil, fmt.Errorf("watch Knative Services: %w", err)
	}
	k.factory.Start(ctx.Done())
	return k, informer.Lister(), nil
}

// makeGateway makes the gateway's Service and gives its cluster IP.
func (c *Controller) makeGateway(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: knativeNamespace}}
	if _, err := c.api.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{}); err != nil && !kerrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("make Knative's namespace: %w", err)
	}
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: gatewayName},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Name: "http2", Port: gatewayPort}}},
	}
	made, err := c.api.CoreV1().Services(knativeNamespace).Create(ctx, service, meta.CreateOptions{})
	if kerrors.IsAlreadyExists(err) {
		made, err = c.api.CoreV1().Services(knativeNamespace).Get(ctx, gatewayName, meta.GetOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("make Knative's gateway: %w", err)
	}
	return made.Spec.ClusterIP, nil
}

// find is the gateway's routing.
func (k *knative) find(r *http.Request) (Pod, bool) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, ok := k.hosts[host]
	return pod, ok
}

func (k *knative) close() {
	k.gateway.close()
	k.factory.Shutdown()
}

func hostOf(s *unstructured.Unstructured) string {
	return s.GetName() + "." + s.GetNamespace() + ".svc.cluster.local"
}

// makePlaceholder makes the Kubernetes Service of a Knative Service, and tells whether
// there is one that is its own.
func (c *Controller) makePlaceholder(ctx context.Context, s *unstructured.Unstructured, services []*core.Service) (bool, error) {
	for _, there := range services {
		if there.Namespace == s.GetNamespace() && there.Name == s.GetName() && there.DeletionTimestamp == nil {
			owner := meta.GetControllerOf(there)
			return owner != nil && owner.UID == s.GetUID(), nil
		}
	}
	controller := true
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: s.GetName(), OwnerReferences: []meta.OwnerReference{{
			APIVersion: s.GetAPIVersion(), Kind: s.GetKind(), Name: s.GetName(), UID: s.GetUID(), Controller: &controller,
		}}},
		Spec: core.ServiceSpec{
			Type: core.ServiceTypeExternalName, ExternalName: c.knative.address,
			Ports: []core.ServicePort{{Name: "http2", Port: gatewayPort}},
		},
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.api.CoreV1().Services(s.GetNamespace()).Create(ctx, service, meta.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) && !kerrors.HasStatusCause(err, core.NamespaceTerminatingCause) {
		return false, fmt.Errorf("make the Service of Knative Service %s: %w", s.GetName(), err)
	}
	return err == nil, nil
}

// collect deletes the Kubernetes Services whose Knative Service is gone, as the garbage
// collector does.
func (c *Controller) collect(ctx context.Context, services []*core.Service, there map[string]bool) (failed error) {
	for _, s := range services {
		owner := meta.GetControllerOf(s)
		if owner == nil || !strings.HasPrefix(owner.APIVersion, knativeKind().Group+"/") || there[string(owner.UID)] {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		err := c.api.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, meta.DeleteOptions{})
		cancel()
		if err != nil && !kerrors.IsNotFound(err) {
			failed = errors.Join(failed, fmt.Errorf("delete the Service of Knative Service %s: %w", owner.Name, err))
		}
	}
	return failed
}

// listKnative gives all Knative Services.
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
