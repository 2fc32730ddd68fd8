package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
)

const (
	// portVariable tells the app what to listen on.
	portVariable = "PORT"

	// progressDeadline is how long a rollout may make no progress, in seconds,
	// until Kubernetes calls it failed (decisions section 7).
	progressDeadline = 120

	// surge is how many pods more than wanted a rollout may run; rounded up, so at
	// least one.
	surge = "25%"
)

// ApplyDeployment makes an app's Deployment run the app's image. How the image
// runs (its user, its resources) is the customer's business.
func (c *Cluster) ApplyDeployment(ctx context.Context, o Objects, a app.App) error {
	if a.Image == "" {
		return fmt.Errorf("apply deployment %s: %w", a.Ref(), errors.New("there is no image yet"))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.kube.AppsV1().Deployments(a.Namespace).Apply(ctx, deployment(o.deployment, a), applied())
	if err != nil {
		return fmt.Errorf("apply deployment %s: %w", a.Ref(), known(err))
	}
	return nil
}

func applied() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}

// deployment is what an app's Deployment shall be; there is the one that exists,
// or nil.
func deployment(there *appsv1.Deployment, a app.App) *appsv1ac.DeploymentApplyConfiguration {
	selector, pod := podLabels(there, a)
	container := corev1ac.Container().
		WithName(containerName(there, a)).
		WithImage(a.Image).
		WithEnv(corev1ac.EnvVar().WithName(portVariable).WithValue(strconv.Itoa(a.Port))).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(int32(a.Port)).WithProtocol(corev1.ProtocolTCP))
	template := corev1ac.PodTemplateSpec().
		WithLabels(pod).
		WithAnnotations(map[string]string{revisionAnnotation: strconv.FormatInt(a.Revision, 10)}).
		WithSpec(corev1ac.PodSpec().WithContainers(container))
	d := appsv1ac.Deployment(a.Name, a.Namespace).
		WithLabels(labels(a.Name)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithProgressDeadlineSeconds(progressDeadline).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(template))
	if s := strategy(there); s != nil {
		d.Spec.WithStrategy(s)
	}
	if there != nil {
		d.WithResourceVersion(there.ResourceVersion)
	}
	return d
}

// strategy keeps every old pod until a new one is ready, so that a revision that
// never becomes ready takes nothing away. A Deployment that was adopted with
// Recreate keeps that: its pods may not be able to run side by side.
func strategy(there *appsv1.Deployment) *appsv1ac.DeploymentStrategyApplyConfiguration {
	if there != nil && there.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return appsv1ac.DeploymentStrategy().
		WithType(appsv1.RollingUpdateDeploymentStrategyType).
		WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
			WithMaxUnavailable(intstr.FromInt32(0)).
			WithMaxSurge(intstr.FromString(surge)))
}

// podLabels are what selects an app's pods and what the pods carry. A Deployment's
// selector can never change, so an adopted one keeps its own, and its pods carry
// those labels besides ours, by which the Service finds them.
func podLabels(there *appsv1.Deployment, a app.App) (selector, pod map[string]string) {
	selector, pod = map[string]string{appLabel: a.Name}, labels(a.Name)
	if there != nil && there.Spec.Selector != nil {
		selector = there.Spec.Selector.MatchLabels
		for k, v := range selector {
			pod[k] = v
		}
	}
	return selector, pod
}

// containerName finds the container that is the app: the one called like it, or
// else the first, so that adoption changes a container instead of adding one.
func containerName(there *appsv1.Deployment, a app.App) string {
	if c := appContainer(there, a); c != nil {
		return c.Name
	}
	return a.Name
}

func appContainer(there *appsv1.Deployment, a app.App) *corev1.Container {
	if there == nil || len(there.Spec.Template.Spec.Containers) == 0 {
		return nil
	}
	containers := there.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == a.Name {
			return &containers[i]
		}
	}
	return &containers[0]
}

func deploymentStanding(d *appsv1.Deployment, a app.App) Standing {
	if a.Image == "" {
		return Right
	}
	return standing(d == nil, d != nil && deploymentRight(d, a))
}

func deploymentRight(d *appsv1.Deployment, a app.App) bool {
	c := appContainer(d, a)
	if c == nil || c.Image != a.Image {
		return false
	}
	_, pod := podLabels(d, a)
	template := d.Spec.Template
	return hasAll(d.Labels, labels(a.Name)) && hasAll(template.Labels, pod) &&
		template.Annotations[revisionAnnotation] == strconv.FormatInt(a.Revision, 10) &&
		listens(c, a.Port)
}

func listens(c *corev1.Container, port int) bool {
	told := false
	for _, e := range c.Env {
		told = told || e.Name == portVariable && e.Value == strconv.Itoa(port)
	}
	open := false
	for _, p := range c.Ports {
		open = open || int(p.ContainerPort) == port
	}
	return told && open
}
