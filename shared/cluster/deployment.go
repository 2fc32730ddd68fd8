package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
)

const (
	portVariable = "PORT"

	// progressDeadline is the time without progress, in seconds, after which Kubernetes reports a
	// rollout as failed.
	progressDeadline = 120

	// surge is the number of extra pods during a rollout, rounded up.
	surge = "25%"
)

// ApplyDeployment makes an app's Deployment run the app's image.
func (c *Cluster) ApplyDeployment(ctx context.Context, o Objects, a app.App) error {
	if a.Image == "" {
		return fmt.Errorf("apply deployment %s: %w", a.Ref(), errors.New("app has no image"))
	}
	if foreign(o.deployment) {
		return nameTaken("Deployment", a.Ref())
	}
	return c.deployments(a.Namespace).apply(ctx, deployment(o.deployment, a))
}

func deployment(existing *appsv1.Deployment, a app.App) *unstructured.Unstructured {
	selector, pod := podLabels(existing, a)
	container := map[string]any{
		"name":  containerName(existing, a),
		"image": a.Image,
		"env":   []any{map[string]any{"name": portVariable, "value": strconv.Itoa(a.Port)}},
		"ports": []any{map[string]any{"containerPort": int64(a.Port), "protocol": string(corev1.ProtocolTCP)}},
	}
	spec := map[string]any{
		"progressDeadlineSeconds": int64(progressDeadline),
		"selector":                map[string]any{"matchLabels": texts(selector)},
		"template": map[string]any{
			"metadata": map[string]any{
				"labels":      texts(pod),
				"annotations": map[string]any{revisionAnnotation: strconv.FormatInt(a.Revision, 10)},
			},
			"spec": podSpec(existing, container),
		},
	}
	if s := strategy(existing); s != nil {
		spec["strategy"] = s
	}
	return owned(a.Ref(), a.Name, spec, existing)
}

// podSpec keeps service account tokens out of the app's pods: an attacker in an app must not have
// access to the Kubernetes API. An adopted Deployment that names an account or requests the token
// keeps the token.
func podSpec(existing *appsv1.Deployment, container map[string]any) map[string]any {
	spec := map[string]any{"containers": []any{container}}
	if existing == nil || tokenless(existing.Spec.Template.Spec) {
		spec["automountServiceAccountToken"] = false
	}
	return spec
}

func tokenless(pod corev1.PodSpec) bool {
	if asks := pod.AutomountServiceAccountToken; asks != nil {
		return !*asks
	}
	return pod.ServiceAccountName == "" || pod.ServiceAccountName == "default"
}

// strategy returns a rollout strategy that keeps every old pod until a new one is ready. An adopted
// Deployment keeps the strategy Recreate: its pods may not be able to run side by side.
func strategy(existing *appsv1.Deployment) map[string]any {
	if existing != nil && existing.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return map[string]any{
		"type":          string(appsv1.RollingUpdateDeploymentStrategyType),
		"rollingUpdate": map[string]any{"maxUnavailable": int64(0), "maxSurge": surge},
	}
}

// podLabels returns the selector of an app's Deployment and the labels of its pods. A Deployment's
// selector cannot change; the Service selects pods by Sluice's label.
func podLabels(existing *appsv1.Deployment, a app.App) (selector, pod map[string]string) {
	selector, pod = map[string]string{appLabel: a.Name}, labels(a.Name)
	if existing != nil && existing.Spec.Selector != nil {
		selector = existing.Spec.Selector.MatchLabels
		for k, v := range selector {
			pod[k] = v
		}
	}
	return selector, pod
}

func containerName(existing *appsv1.Deployment, a app.App) string {
	if existing != nil {
		if i := appContainer(existing.Spec.Template.Spec, a.Name); i >= 0 {
			return existing.Spec.Template.Spec.Containers[i].Name
		}
	}
	return a.Name
}

// appContainer returns the index of the container with the app's name, 0 if none has that name, and
// -1 if there are no containers.
func appContainer(pod corev1.PodSpec, name string) int {
	if len(pod.Containers) == 0 {
		return -1
	}
	return max(0, slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == name }))
}

func deploymentStatus(d *appsv1.Deployment, a app.App) Status {
	if a.Image == "" {
		return Right
	}
	return statusOf(d == nil, d != nil && deploymentRight(d, a))
}

func deploymentRight(d *appsv1.Deployment, a app.App) bool {
	template := d.Spec.Template
	i := appContainer(template.Spec, a.Name)
	if i < 0 || template.Spec.Containers[i].Image != a.Image {
		return false
	}
	_, pod := podLabels(d, a)
	return hasAll(d.Labels, labels(a.Name)) && hasAll(template.Labels, pod) &&
		template.Annotations[revisionAnnotation] == strconv.FormatInt(a.Revision, 10) &&
		listens(template.Spec.Containers[i], a.Port)
}

func listens(c corev1.Container, port int) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == portVariable && e.Value == strconv.Itoa(port) }) &&
		slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return int(p.ContainerPort) == port })
}

// deploymentObservation reads a Deployment's status by the rules of "kubectl rollout status".
func deploymentObservation(d *appsv1.Deployment) deploy.Observation {
	o := deploy.Observation{Revision: revisionIn(d.Spec.Template.Annotations[revisionAnnotation])}
	if wanted(d) == 0 {
		o.Idle, o.Message = true, "The workload is scaled to zero replicas."
		return o
	}
	if d.Status.ObservedGeneration < d.Generation { // the conditions describe the previous generation
		o.Message = "Kubernetes has not processed the change yet."
		return o
	}
	o.Ready, o.Message = rolledOut(d)
	// ReadyReplicas includes old pods, of which there are Replicas - UpdatedReplicas.
	o.PodReady = d.Status.ReadyReplicas > d.Status.Replicas-d.Status.UpdatedReplicas
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionTrue:
			o.ProgressAt = c.LastUpdateTime.UTC()
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && !o.Ready:
			o.Message = c.Message
		}
	}
	return o
}

func rolledOut(d *appsv1.Deployment) (ready bool, message string) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return false, c.Message
		}
	}
	switch s := d.Status; {
	case s.UpdatedReplicas < wanted(d):
		return false, fmt.Sprintf("%d of %d pods run the new revision.", s.UpdatedReplicas, wanted(d))
	case s.Replicas > s.UpdatedReplicas:
		return false, fmt.Sprintf("Pods of the previous revision still running: %d.", s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < s.UpdatedReplicas:
		return false, fmt.Sprintf("%d of %d new pods are ready.", s.AvailableReplicas, s.UpdatedReplicas)
	}
	return true, ""
}

func wanted(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func revisionIn(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// ApplyService writes the Service that routes the app's port to its pods.
func (c *Cluster) ApplyService(ctx context.Context, o Objects, a app.App) error {
	if foreign(o.service) {
		return nameTaken("Service", a.Ref())
	}
	return c.services(a.Namespace).apply(ctx, service(o.service, a))
}

func service(existing *corev1.Service, a app.App) *unstructured.Unstructured {
	port := int64(a.Port)
	return owned(a.Ref(), a.Name, map[string]any{
		"selector": map[string]any{appLabel: a.Name},
		"ports":    []any{map[string]any{"name": "http", "protocol": string(corev1.ProtocolTCP), "port": port, "targetPort": port}},
	}, existing)
}

func serviceStatus(s *corev1.Service, a app.App) Status {
	return statusOf(s == nil, s != nil && serviceRight(s, a))
}

func serviceRight(s *corev1.Service, a app.App) bool {
	if !hasAll(s.Labels, labels(a.Name)) || s.Spec.Selector[appLabel] != a.Name {
		return false
	}
	for _, p := range s.Spec.Ports {
		if int(p.Port) == a.Port && p.Protocol == corev1.ProtocolTCP && p.TargetPort.IntValue() == a.Port {
			return true
		}
	}
	return false
}
