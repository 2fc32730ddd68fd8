package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Attach gives a cluster with Sluice that somebody else runs, as its file describes it in
// the form of stack.json. Where its checkers are is looked up: pods come and go. It can be
// asked where everything is; it has no processes to be signalled or restarted, and to close
// it ends nothing.
func Attach(ctx context.Context, file string) (*Stack, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read where the stack is: %w", err)
	}
	s := &Stack{attached: true}
	if err := json.Unmarshal(text, &s.info); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.info.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	pods, err := api.CoreV1().Pods(systemNamespace).List(ctx, meta.ListOptions{LabelSelector: "sluice.dev/function=" + checkerFunction})
	if err != nil {
		return nil, fmt.Errorf("look for the checkers: %w", err)
	}
	s.info.Checkers, s.info.CheckerMetrics = nil, nil
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, isReady) {
			s.info.Checkers = append(s.info.Checkers, "https://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(checkerTarget)))
			s.info.CheckerMetrics = append(s.info.CheckerMetrics, "http://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(metricsTarget))+"/metrics")
		}
	}
	if len(s.info.Checkers) == 0 {
		return nil, fmt.Errorf("of the checkers in %s none is ready", systemNamespace)
	}
	return s, nil
}

func isReady(c core.PodCondition) bool {
	return c.Type == core.PodReady && c.Status == core.ConditionTrue
}
