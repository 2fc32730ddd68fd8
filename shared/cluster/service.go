package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
)

// ApplyService makes the Service that gives an app its address inside the
// cluster: the app's port, on its pods.
func (c *Cluster) ApplyService(ctx context.Context, o Objects, a app.App) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	port := int64(a.Port)
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"selector": map[string]any{appLabel: a.Name},
		"ports":    []any{map[string]any{"name": "http", "protocol": string(corev1.ProtocolTCP), "port": port, "targetPort": port}},
	}}}
	s.SetName(a.Name)
	s.SetLabels(labels(a.Name))
	if o.service != nil {
		s.SetResourceVersion(o.service.ResourceVersion)
	}
	if err := c.services(a.Namespace).apply(ctx, s); err != nil {
		return fmt.Errorf("apply service %s: %w", a.Ref(), known(err))
	}
	return nil
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
