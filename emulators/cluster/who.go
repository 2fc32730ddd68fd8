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

// WhoURL is where a pod is told who it is, as a [workloads.Pod].
const WhoURL = "http://" + nodeIP + ":8083/"

const lookLimit = 5 * time.Second

// who tells the pod that asks, known by its address, what an echo shows of it. A pod
// can't know its image by itself, and apps may not ask the API server.
type who struct {
	kubeconfig string
	log        *slog.Logger
}

// ServeHTTP implements [http.Handler].
func (h *who) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err == nil {
		var pod workloads.Pod
		if pod, err = h.find(r.Context(), address); err == nil {
			err = json.NewEncoder(w).Encode(pod)
		}
	}
	if err != nil {
		h.log.Warn("a pod is not known", "address", r.RemoteAddr, "error", err)
		w.WriteHeader(http.StatusNotFound)
	}
}

func (h *who) find(ctx context.Context, address string) (workloads.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		return workloads.Pod{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return workloads.Pod{}, fmt.Errorf("make a client of the API server: %w", err)
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

// identify says of a pod what the local stack's apps say of themselves.
func identify(p core.Pod) workloads.Pod {
	who := workloads.Pod{Namespace: p.Namespace, Revision: p.Annotations["sluice.dev/revision"]}
	for _, c := range p.Spec.Containers {
		if c.Name != "queue-proxy" {
			who.Image = cmp.Or(who.Image, c.Image)
		}
	}
	for _, owner := range p.OwnerReferences {
		if i := strings.LastIndex(owner.Name, "-"); owner.Kind == "ReplicaSet" && i > 0 {
			who.App = owner.Name[:i]
		}
	}
	who.App = cmp.Or(p.Labels["serving.knative.dev/service"], who.App)
	return who
}
