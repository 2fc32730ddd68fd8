package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/workloads"
)

// IdentityURL is the URL at which a pod reads its identity, a [workloads.Pod].
const IdentityURL = "http://" + nodeIP + ":8083/"

const callLimit = 5 * time.Second

// identityServer identifies pods by their IP address. A pod does not know its image, and an app
// may not read it from the API server.
type identityServer struct {
	kubeconfig string
	log        *slog.Logger
}

// ServeHTTP implements [http.Handler].
func (h *identityServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err == nil {
		var pod workloads.Pod
		if pod, err = h.find(r.Context(), address); err == nil {
			err = json.NewEncoder(w).Encode(pod)
		}
	}
	if err != nil {
		h.log.Warn("find pod failed", "address", r.RemoteAddr, "error", err)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (h *identityServer) find(ctx context.Context, address string) (workloads.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		return workloads.Pod{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return workloads.Pod{}, fmt.Errorf("create a client of the API server: %w", err)
	}
	list, err := api.CoreV1().Pods("").List(ctx, meta.ListOptions{FieldSelector: "status.podIP=" + address})
	if err != nil {
		return workloads.Pod{}, fmt.Errorf("find the pod at %s: %w", address, err)
	}
	for _, p := range list.Items {
		if p.Status.Phase == core.PodRunning || p.Status.Phase == core.PodPending {
			return identify(p), nil
		}
	}
	return workloads.Pod{}, fmt.Errorf("no pod has the address %s", address)
}

func identify(p core.Pod) workloads.Pod {
	pod := workloads.Pod{Namespace: p.Namespace, Revision: p.Annotations["sluice.dev/revision"]}
	for _, c := range p.Spec.Containers {
		if c.Name != "queue-proxy" {
			pod.Image = cmp.Or(pod.Image, c.Image)
		}
	}
	for _, owner := range p.OwnerReferences {
		if i := strings.LastIndex(owner.Name, "-"); owner.Kind == "ReplicaSet" && i > 0 {
			pod.App = owner.Name[:i]
		}
	}
	pod.App = cmp.Or(p.Labels["serving.knative.dev/service"], pod.App)
	return pod
}
