package workloads_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/workloads"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

const timeout = 20 * time.Second

type cluster struct {
	kubernetes.Interface
	config *rest.Config
}

func start(t *testing.T) cluster {
	t.Helper()
	config, client := server(t)
	run(t, config)
	return cluster{Interface: client, config: config}
}

func server(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	_, config := clustertest.Start(t, kube.Options{})
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	return config, client
}

func run(t *testing.T, config *rest.Config) {
	t.Helper()
	c, err := workloads.New(config, slog.New(slog.NewTextHandler(t.Output(), nil)))
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (c cluster) namespace(t *testing.T, name string) {
	t.Helper()
	n := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), n, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c cluster) app(t *testing.T, namespace, image string) string {
	t.Helper()
	labels := map[string]string{"app": "hello"}
	var limit int32 = 2
	d := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "hello"},
		Spec: apps.DeploymentSpec{
			ProgressDeadlineSeconds: &limit,
			Selector:                &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels, Annotations: map[string]string{"sluice.dev/revision": "1"}},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "app", Image: image}}},
			},
		},
	}
	if _, err := c.AppsV1().Deployments(namespace).Create(t.Context(), d, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "hello"},
		Spec:       core.ServiceSpec{Selector: labels, Ports: []core.ServicePort{{Port: 8080}}},
	}
	made, err := c.CoreV1().Services(namespace).Create(t.Context(), s, meta.CreateOptions{})
	check.OK(t, err)
	return net.JoinHostPort(made.Spec.ClusterIP, "8080")
}

func (c cluster) setImage(t *testing.T, namespace, image string) {
	t.Helper()
	check.Eventually(t, "change the image", timeout, func() error {
		d, err := c.AppsV1().Deployments(namespace).Get(t.Context(), "hello", meta.GetOptions{})
		if err != nil {
			return err
		}
		d.Spec.Template.Spec.Containers[0].Image = image
		_, err = c.AppsV1().Deployments(namespace).Update(t.Context(), d, meta.UpdateOptions{})
		return err
	})
}

func (c cluster) progressing(t *testing.T, namespace, reason string) {
	t.Helper()
	check.Eventually(t, reason, timeout, func() error {
		d, err := c.AppsV1().Deployments(namespace).Get(t.Context(), "hello", meta.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == apps.DeploymentProgressing && condition.Reason == reason && d.Status.ObservedGeneration == d.Generation {
				return nil
			}
		}
		return fmt.Errorf("status %+v of generation %d", d.Status, d.Generation)
	})
}

func image(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var e workloads.Echo
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return "", err
	}
	return e.Image, nil
}

func serves(t *testing.T, address, want string) {
	t.Helper()
	check.Eventually(t, "serve "+want, timeout, func() error {
		got, err := image(t.Context(), address)
		if err == nil && got != want {
			err = fmt.Errorf("got image %s", got)
		}
		return err
	})
}

func TestWorkloads(t *testing.T) {
	t.Parallel()
	c := start(t)
	t.Run("rollouts", func(t *testing.T) {
		const v1, v2, bad = "registry.example/hello:v1", "registry.example/hello:v2", "registry.example/hello:broken"
		c.namespace(t, "rollouts")
		address := c.app(t, "rollouts", v1)
		c.progressing(t, "rollouts", "NewReplicaSetAvailable")
		serves(t, address, v1)
		c.setImage(t, "rollouts", bad)
		c.progressing(t, "rollouts", "ReplicaSetUpdated")
		c.progressing(t, "rollouts", "ProgressDeadlineExceeded")
		serves(t, address, v1)
		c.setImage(t, "rollouts", v2)
		c.progressing(t, "rollouts", "NewReplicaSetAvailable")
		serves(t, address, v2)
		check.OK(t, c.AppsV1().Deployments("rollouts").Delete(t.Context(), "hello", meta.DeleteOptions{}))
		refuses(t, address)
	})
	t.Run("never ready", func(t *testing.T) {
		c.namespace(t, "never")
		address := c.app(t, "never", "registry.example/hello:broken")
		c.progressing(t, "never", "ProgressDeadlineExceeded")
		refuses(t, address)
	})
	t.Run("a deleted namespace goes away", func(t *testing.T) {
		c.namespace(t, "gone")
		address := c.app(t, "gone", "registry.example/hello:v1")
		serves(t, address, "registry.example/hello:v1")
		check.OK(t, c.CoreV1().Namespaces().Delete(t.Context(), "gone", meta.DeleteOptions{}))
		check.Eventually(t, "go away", timeout, func() error {
			_, err := c.CoreV1().Namespaces().Get(t.Context(), "gone", meta.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("the namespace still exists"))
		})
		refuses(t, address)
		c.namespace(t, "gone")
		list, err := c.AppsV1().Deployments("gone").List(t.Context(), meta.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("got %d Deployments, %v, want none", len(list.Items), err)
		}
	})
	t.Run("a new namespace of the same name keeps its objects", func(t *testing.T) {
		c.namespace(t, "again")
		c.app(t, "again", "registry.example/hello:v1")
		controller, err := workloads.New(c.config, slog.New(slog.NewTextHandler(t.Output(), nil)))
		check.OK(t, err)
		previous := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "again", UID: "previous"}}
		if err := workloads.EndNamespace(controller, t.Context(), previous); err != nil {
			t.Error(err)
		}
		if _, err := c.AppsV1().Deployments("again").Get(t.Context(), "hello", meta.GetOptions{}); err != nil {
			t.Errorf("the new namespace lost its Deployment: %v", err)
		}
	})
}

func refuses(t *testing.T, address string) {
	t.Helper()
	check.Eventually(t, "refuse connections", timeout, func() error {
		if got, err := image(t.Context(), address); err == nil {
			return fmt.Errorf("got image %s, want a refused connection", got)
		}
		return nil
	})
}
