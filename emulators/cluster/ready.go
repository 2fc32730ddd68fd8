package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

const (
	readyEvery = 250 * time.Millisecond
	logTail    = 10 // lines
)

func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, meta.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == core.NodeReady && c.Status == core.ConditionTrue {
			return nil
		}
	}
	return errors.New("the node is not ready")
}

// deploymentsReady waits until all Deployments are available. Errors contain the reason and the
// last log lines of each pod that is not ready.
func deploymentsReady(ctx context.Context, client kubernetes.Interface, limit time.Duration) error {
	waiting, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
	defer cancel()
	err := child.Until(waiting, readyEvery, func() error {
		list, err := client.AppsV1().Deployments("").List(waiting, meta.ListOptions{})
		if err != nil {
			return err
		}
		var missing []string
		for _, d := range list.Items {
			// The stand-in is ready only while no checker is reachable.
			if d.Name != "sluice-standin" && !available(d) {
				missing = append(missing, d.Namespace+"/"+d.Name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("waiting for %s", strings.Join(missing, ", "))
		}
		return nil
	})
	if err == nil {
		return nil
	}
	return errors.Join(err, podProblems(context.WithoutCancel(ctx), client))
}

func available(d apps.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want
}

func podProblems(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	list, err := client.CoreV1().Pods("").List(ctx, meta.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var all error
	for _, p := range list.Items {
		reason := podProblem(p)
		if reason == "" {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.Ready {
				continue
			}
			lines := int64(logTail)
			text, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &core.PodLogOptions{Container: c.Name, TailLines: &lines}).DoRaw(ctx)
			if err == nil && len(text) > 0 {
				reason += "\n" + c.Name + " logged:\n" + strings.TrimSpace(string(text))
			}
		}
		all = errors.Join(all, fmt.Errorf("pod %s/%s: %s", p.Namespace, p.Name, reason))
	}
	return all
}

// podProblem returns the reason why a pod is not ready, or "".
func podProblem(p core.Pod) string {
	if p.Status.Phase == core.PodSucceeded {
		return ""
	}
	var reasons []string
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		switch {
		case c.State.Waiting != nil:
			reasons = append(reasons, fmt.Sprintf("%s is waiting: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message))
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			reasons = append(reasons, fmt.Sprintf("%s ended: %s, exit status %d", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode))
		case c.State.Running != nil && !c.Ready:
			reasons = append(reasons, c.Name+" runs but is not ready")
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			reasons = append(reasons, "not scheduled: "+c.Message)
		}
	}
	return strings.Join(reasons, "; ")
}
