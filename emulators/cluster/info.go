package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/emulators/stack"
)

const infoFile = "info.json"

const (
	systemNamespace = "sluice-system"
	adminSecret     = "sluice-admin" //nolint:gosec // a Secret's name
	checkerTLS      = "sluice-checker-tls"
	checkerService  = "sluice-checker"
	checkerPort     = 8443
	googleProject   = "sluice-cluster"
)

// Info is the content of info.json. It extends the local stack's stack.json, so that tests can
// read both. Pod addresses may have changed since the file was written.
type Info struct {
	stack.Info

	Registry string `json:"registry"`
	GitURL   string `json:"git_url"` // folder of repositories
	GitDir   string `json:"git_dir"` // folder of the bare repositories
	HostIP   string `json:"host_ip"` // address of this machine as seen by pods
	PID      int    `json:"pid"`     // first process of the node
}

// ReadInfo reads an info.json.
func ReadInfo(file string) (info Info, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return info, fmt.Errorf("read the cluster's file: %w", err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("read the cluster's file: %w", err)
	}
	return info, nil
}

func (c *Cluster) writeInfo(ctx context.Context) (Info, error) {
	const baseURL = "http://" + nodeIP
	info := Info{
		Info: stack.Info{
			BaseURL: baseURL, IngressURL: baseURL + ":80", ConsoleURL: baseURL + "/console",
			CheckerURL: fmt.Sprintf("https://%s.%s.svc:%d", checkerService, systemNamespace, checkerPort), CheckerCA: c.path("checker-ca.crt"),
			Kubeconfig: c.kubeconfig(), EtcdURL: "http://" + at(etcdPort),
			FirestoreEmulatorHost: at(firestorePort), Project: googleProject, LogsDir: c.logs(),
			Functions: map[string]string{}, Metrics: map[string]string{},
		},
		Registry: at(registryPort), GitURL: "http://" + at(gitPort), GitDir: c.path("git"), HostIP: hostIP,
	}
	var err error
	if info.PIDs, err = c.processes(); err != nil {
		return info, err
	}
	info.PID = info.PIDs["node"]
	if err := errors.Join(c.findAdmin(ctx, &info), c.findPods(ctx, &info), c.findServices(ctx, &info)); err != nil {
		return info, err
	}
	text, err := json.MarshalIndent(info, "", "  ")
	if err == nil {
		err = os.WriteFile(c.path(infoFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return info, fmt.Errorf("write %s: %w", infoFile, err)
	}
	return info, nil
}

func (c *Cluster) findAdmin(ctx context.Context, info *Info) error {
	secrets, err := c.client.CoreV1().Secrets(systemNamespace).List(ctx, meta.ListOptions{})
	if err != nil {
		return fmt.Errorf("read Sluice's Secrets: %w", err)
	}
	for _, s := range secrets.Items {
		switch s.Name {
		case adminSecret:
			info.Admin = stack.Admin{Username: string(s.Data["username"]), Password: string(s.Data["password"])}
		case checkerTLS:
			if err := os.WriteFile(info.CheckerCA, s.Data["ca.crt"], 0o600); err != nil {
				return fmt.Errorf("write the checkers' CA: %w", err)
			}
		}
	}
	return nil
}

func (c *Cluster) findPods(ctx context.Context, info *Info) error {
	pods, err := c.client.CoreV1().Pods(systemNamespace).List(ctx, meta.ListOptions{LabelSelector: "sluice.dev/function"})
	if err != nil {
		return fmt.Errorf("list Sluice's pods: %w", err)
	}
	for _, p := range pods.Items {
		if p.Status.PodIP == "" || p.DeletionTimestamp != nil {
			continue
		}
		function := p.Labels["sluice.dev/function"]
		metrics := "http://" + p.Status.PodIP + ":" + metricsPort(p) + "/metrics"
		serves := fmt.Sprintf("https://%s:%d", p.Status.PodIP, checkerPort)
		switch function {
		case "checker":
			info.Metrics["checker-"+strconv.Itoa(len(info.Checkers))] = metrics
			info.Checkers, info.CheckerMetrics = append(info.Checkers, serves), append(info.CheckerMetrics, metrics)
			continue
		case "standin":
			info.Standin = serves
		}
		info.Metrics[function] = metrics
	}
	return nil
}

func metricsPort(p core.Pod) string {
	for _, container := range p.Spec.Containers {
		for _, e := range container.Env {
			if e.Name == "METRICS_PORT" {
				return e.Value
			}
		}
	}
	return "9090"
}

// findServices sets the addresses of functions in Deployments. Knative Services have no such
// address: Knative routes to them by host.
func (c *Cluster) findServices(ctx context.Context, info *Info) error {
	list, err := c.client.CoreV1().Services(systemNamespace).List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/part-of=sluice,!serving.knative.dev/service"})
	if err != nil {
		return fmt.Errorf("list Sluice's Services: %w", err)
	}
	for _, s := range list.Items {
		switch {
		case s.Name == checkerService:
			info.CheckerName = checkerService + "." + systemNamespace + ".svc"
			info.CheckerURL = fmt.Sprintf("https://%s:%d", s.Spec.ClusterIP, checkerPort)
		case len(s.Spec.Ports) > 0 && s.Spec.Ports[0].Port != checkerPort && s.Spec.Type == core.ServiceTypeClusterIP:
			info.Functions[s.Name] = fmt.Sprintf("http://%s:%d", s.Spec.ClusterIP, s.Spec.Ports[0].Port)
		}
	}
	return nil
}

// Table returns the addresses of the cluster.
func (i Info) Table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	row := func(name, value string) { _, _ = fmt.Fprintf(w, "  %s\t%s\n", name, value) }
	if i.Admin.Username != "" {
		row("Management API", i.BaseURL+"/api/v1")
		row("Console", i.ConsoleURL)
		row("Admin sign-in", i.Admin.Username+" / "+i.Admin.Password)
	}
	row("Ingress", i.IngressURL+" (set the Host header)")
	row("Kubernetes", "KUBECONFIG="+i.Kubeconfig)
	row("Registry", i.Registry)
	row("Git", i.GitURL+" (repositories in "+i.GitDir+")")
	row("Firestore", "FIRESTORE_EMULATOR_HOST="+i.FirestoreEmulatorHost)
	row("This machine", i.HostIP+" (address for pods)")
	row("Logs", i.LogsDir)
	_ = w.Flush() // never fails for a strings.Builder
	return out.String()
}
