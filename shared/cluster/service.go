package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sluicegate/sluice/shared/app"
)

// ApplyService makes the Service that gives an app its address inside the
// cluster: the app's port, on its pods.
func (c *Cluster) ApplyService(ctx context.Context, o Objects, a app.App) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	port := int32(a.Port)
	s := corev1ac.Service(a.Name, a.Namespace).
		WithLabels(labels(a.Name)).
		WithSpec(corev1ac.ServiceSpec().
			WithSelector(map[string]string{appLabel: a.Name}).
			WithPorts(corev1ac.ServicePort().WithName("http").WithProtocol(corev1.ProtocolTCP).
				WithPort(port).WithTargetPort(intstr.FromInt32(port))))
	if o.service != nil {
		s.WithResourceVersion(o.service.ResourceVersion)
	}
	if _, err := c.kube.CoreV1().Services(a.Namespace).Apply(ctx, s, applied()); err != nil {
		return fmt.Errorf("apply service %s: %w", a.Ref(), known(err))
	}
	return nil
}

func serviceStanding(s *corev1.Service, a app.App) Standing {
	return standing(s == nil, s != nil && serviceRight(s, a))
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
