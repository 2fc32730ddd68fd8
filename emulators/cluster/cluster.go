// Package cluster runs a single-node cluster on this machine, on which the chart installs
// Sluice: etcd, Kubernetes and containerd, CoreDNS, Knative, Tekton Pipelines, Traefik, an OCI
// registry, a git server and the Firestore emulator.
//
// The node is a process with its own PID, mount and network namespaces ([Init]). When it ends,
// the kernel ends all processes of Kubernetes and removes the mounts and interfaces. A veth
// pair connects the node, pods and Services with this machine.
//
// Programs, images and manifests come from the modules in tools.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/orphans"
	"github.com/sluicegate/sluice/emulators/internal/progress"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	nodeLimit  = 3 * time.Minute
	readyLimit = 10 * time.Minute
	lateLimit  = 2 * time.Minute
	lateEvery  = time.Second
)

// Cluster is a cluster that is being started.
type Cluster struct {
	Options

	progress *progress.Progress
	machine  *machine
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	applier  *manifest.Applier
	refs     map[string]string
	tag      string
}

// Up starts a cluster, which outlives this process, and waits until it is ready. If a cluster is
// running, Up keeps it; otherwise it first removes the remains of a previous one.
func Up(ctx context.Context, o Options, out io.Writer) (Info, error) {
	if os.Geteuid() != 0 {
		return Info{}, errors.New("a node needs root for its namespaces, mounts and control groups")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return Info{}, fmt.Errorf("create the cluster's directory: %w", err)
	}
	unlock, err := orphans.Lock(o.Dir)
	if err != nil {
		return Info{}, fmt.Errorf("another \"make cluster\" is running: %w", err)
	}
	defer unlock() //nolint:errcheck // the lock ends with this process
	if info, err := ReadInfo(o.path(infoFile)); err == nil && alive(ctx) {
		return info, nil
	}
	c := &Cluster{Options: o, progress: progress.New(out, time.Now)}
	info, err := c.up(ctx)
	if err != nil && ctx.Err() != nil {
		_, left := o.sweep(context.WithoutCancel(ctx))
		err = errors.Join(err, left)
	}
	return info, err
}

// alive reports whether the registry responds.
func alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return child.Get(ctx, http.DefaultClient, registryURL) == nil
}

const registryURL = "http://" + nodeIP + ":5000/v2/"

func (c *Cluster) up(ctx context.Context) (Info, error) {
	var programs Programs
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"programs", func(ctx context.Context) (err error) {
			programs, err = Build(ctx, c.Root, c.progress)
			return errors.Join(err, c.buildEcho(ctx))
		}},
		{"sweep", func(ctx context.Context) error {
			_, err := c.sweep(ctx)
			return errors.Join(err, c.clearLogs())
		}},
		{"node", func(ctx context.Context) error { return c.startNode(ctx, programs) }},
		{"parts", c.install},
		{"Sluice", c.installSluice},
	}
	for _, s := range steps {
		if err := c.progress.Step(s.name, func() error { return s.run(ctx) }); err != nil {
			return Info{}, err
		}
	}
	return c.writeInfo(ctx)
}

func (c *Cluster) clearLogs() error {
	if err := os.RemoveAll(c.logs()); err != nil {
		return fmt.Errorf("remove old logs: %w", err)
	}
	return os.MkdirAll(c.logs(), 0o700)
}

func (c *Cluster) startNode(ctx context.Context, programs Programs) (err error) {
	if c.machine, err = c.startMachine(ctx, programs); err != nil {
		return err
	}
	err = c.machine.until(ctx, "start the registry", nodeLimit, func() error { return child.Get(ctx, http.DefaultClient, registryURL) })
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return c.progress.Step("images", func() (err error) {
			c.refs, err = c.pushAll(ctx, programs)
			return err
		})
	})
	group.Go(func() error {
		return c.progress.Step("Kubernetes", func() error { return c.reach(ctx) })
	})
	return group.Wait()
}

func (c *Cluster) reach(ctx context.Context) error {
	return c.machine.until(ctx, "start Kubernetes", nodeLimit, func() error {
		if c.client == nil {
			config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
			if err == nil {
				err = c.clients(config)
			}
			if err != nil {
				return err
			}
		}
		return nodeReady(ctx, c.client)
	})
}

func (c *Cluster) clients(config *rest.Config) (err error) {
	config.QPS, config.Burst, config.WarningHandler = 200, 400, rest.NoWarnings{}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client of the API server: %w", err)
	}
	if c.applier, err = manifest.NewApplier(config); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client of the API server: %w", err)
	}
	return nil
}

func (c *Cluster) install(ctx context.Context) error {
	group, applying := errgroup.WithContext(ctx)
	for _, p := range parts() {
		group.Go(func() error {
			return c.progress.Step(p.name, func() error { return c.apply(applying, p) })
		})
	}
	group.Go(func() error {
		return c.progress.Step("Sluice's images", func() (err error) {
			c.tag, err = c.pushFunctions(applying)
			return err
		})
	})
	if err := group.Wait(); err != nil {
		return errors.Join(err, podProblems(context.WithoutCancel(ctx), c.client))
	}
	return deploymentsReady(ctx, c.client, readyLimit)
}

func (c *Cluster) apply(ctx context.Context, p part) error {
	all, err := p.read(ctx, c.Root, c.refs)
	if err != nil {
		return err
	}
	namespaces, definitions, rest, late := stages(all)
	if err := c.applier.Apply(ctx, namespaces); err != nil {
		return fmt.Errorf("install %s: %w", p.name, err)
	}
	if err := manifest.Define(ctx, c.dynamic, definitions); err != nil {
		return fmt.Errorf("install %s: %w", p.name, err)
	}
	if err := c.applier.Apply(ctx, rest); err != nil {
		return fmt.Errorf("install %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lateLimit, fmt.Errorf("not within %v", lateLimit))
	defer cancel()
	if err := child.Until(ctx, lateEvery, func() error { return c.applier.Apply(ctx, late) }); err != nil {
		return fmt.Errorf("install %s: %w", p.name, err)
	}
	return nil
}

// Down stops the cluster and removes its state, except the registry, the repositories and the
// logs. It reports whether a cluster was running.
func Down(ctx context.Context, o Options) (bool, error) {
	if _, err := os.Stat(filepath.Clean(o.Dir)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return o.sweep(ctx)
}
