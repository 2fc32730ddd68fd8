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

// Attach returns a running cluster with Sluice, described by a file in the form of stack.json.
// It reads the addresses of the checkers from the API server, because pods change. There are no
// processes to signal or restart, and Close stops nothing.
func Attach(ctx context.Context, file string) (*Stack, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the stack's file: %w", err)
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
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	pods, err := api.CoreV1().Pods(systemNamespace).List(ctx, meta.ListOptions{LabelSelector: "sluice.dev/function=" + checkerFunction})
	if err != nil {
		return nil, fmt.Errorf("list the checkers: %w", err)
	}
	s.info.Checkers, s.info.CheckerMetrics = nil, nil
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, isReady) {
			s.info.Checkers = append(s.info.Checkers, "https://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(checkerTarget)))
			s.info.CheckerMetrics = append(s.info.CheckerMetrics, "http://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(metricsTarget))+"/metrics")
		}
	}
	if len(s.info.Checkers) == 0 {
		return nil, fmt.Errorf("no checker in %s is ready", systemNamespace)
	}
	return s, nil
}

func isReady(c core.PodCondition) bool {
	return c.Type == core.PodReady && c.Status == core.ConditionTrue
}
