// Package services starts the emulators that the unit tests of one run share: Firestore and a
// Kubernetes API.
//
// Tests find them by environment variables. Without them, storetest and clustertest start
// emulators per process.
package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/emulators/ingress"
	"github.com/sluicegate/sluice/emulators/kube"
)

// Variables of the shared services.
const (
	FirestoreVariable  = "FIRESTORE_EMULATOR_HOST"
	KubeconfigVariable = "SLUICE_TEST_KUBECONFIG"
)

// Options configure the services.
type Options struct {
	Root     string    // "" searches upwards from the working directory
	Progress io.Writer // of long builds; nil discards it
}

// Services are the running services of one test run.
type Services struct {
	Firestore *firestore.Server
	Cluster   *Cluster
}

// Start starts all services and waits until they are ready. They run until Close or the end of
// this process.
func Start(ctx context.Context, o Options) (*Services, error) {
	s := &Services{Cluster: &Cluster{Options: o}}
	started := make(chan error)
	go func() {
		var err error
		s.Firestore, err = firestore.Start(ctx, firestore.Options{})
		started <- err
	}()
	err := s.Cluster.StartKube(ctx)
	if err = errors.Join(err, <-started); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Environment returns the variables of the services, as "NAME=value".
func (s *Services) Environment() []string {
	return []string{
		FirestoreVariable + "=" + s.Firestore.Host,
		KubeconfigVariable + "=" + s.Cluster.Kube.Kubeconfig,
	}
}

// Close stops all services.
func (s *Services) Close() error {
	err := s.Cluster.Close()
	if s.Firestore != nil {
		err = errors.Join(err, s.Firestore.Close())
	}
	return err
}

// Cluster is a Kubernetes API and, on demand, Traefik. It is not safe for concurrent use.
type Cluster struct {
	Options

	Kube    *kube.Server
	Ingress *ingress.Server

	logs string
}

// StartKube starts the API server unless it runs, and defines the resources.
func (c *Cluster) StartKube(ctx context.Context) error {
	if c.Kube != nil {
		return nil
	}
	server, err := kube.Start(ctx, kube.Options{Root: c.Root, Progress: c.Progress})
	if err != nil {
		return err
	}
	c.Kube = server
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return crds.Define(ctx, cmp.Or(c.Root, "."), client, crds.Traefik(), crds.Gateway())
}

// StartIngress starts Traefik unless it runs.
func (c *Cluster) StartIngress(ctx context.Context) error {
	if c.Ingress != nil {
		return nil
	}
	if err := c.StartKube(ctx); err != nil {
		return err
	}
	var err error
	if c.logs, err = os.MkdirTemp("", "sluice-traefik-"); err != nil {
		return fmt.Errorf("make a directory for Traefik's logs: %w", err)
	}
	c.Ingress, err = ingress.Start(ctx, ingress.Options{
		Root: c.Root, LogDir: c.logs, Kubeconfig: c.Kube.Kubeconfig, Secure: true, Gateway: true, Progress: c.Progress,
	})
	return err
}

// Close stops the running parts and removes Traefik's logs.
func (c *Cluster) Close() error {
	var err error
	if c.Ingress != nil {
		err = c.Ingress.Close()
	}
	if c.Kube != nil {
		err = errors.Join(err, c.Kube.Close())
	}
	if c.logs != "" {
		err = errors.Join(err, os.RemoveAll(c.logs))
	}
	return err
}
