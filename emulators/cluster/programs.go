package cluster

import (
	"context"
	"io"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/internal/thirdparty"
	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

// buildsAtOnce limits the linkers, which need up to 2.5 GB each.
const buildsAtOnce = 2

const (
	serving  = "knative.dev/serving"
	eventing = "knative.dev/eventing"
	tekton   = "github.com/tektoncd/pipeline"
)

// Programs maps packages to program files. "kube" is the one program that contains Kubernetes.
type Programs map[string]string

type program struct {
	module string
	pkg    string // "" is the main package
	tags   string
}

// programs returns the programs to build, those with the longest builds first.
func programs() []program {
	rows := []program{{module: "kube"}}
	for _, name := range []string{"queue", "controller", "webhook", "activator", "autoscaler"} {
		rows = append(rows, program{module: "knative", pkg: serving + "/cmd/" + name})
	}
	for _, name := range []string{"controller", "webhook", "events", "resolvers", "entrypoint", "nop", "workingdirinit"} {
		rows = append(rows, program{module: "tekton", pkg: tekton + "/cmd/" + name})
	}
	// Eventing has its own module, because it does not compile with the client-go version of
	// Serving.
	for _, name := range []string{"controller", "webhook", "mtping"} {
		rows = append(rows, program{module: "eventing", pkg: eventing + "/cmd/" + name})
	}
	return append(rows,
		program{module: "buildkit", pkg: "github.com/moby/buildkit/cmd/buildkitd", tags: "osusergo,netgo,seccomp"},
		program{module: "buildkit", pkg: "github.com/moby/buildkit/cmd/buildctl"},
		program{module: "buildkit", pkg: "github.com/rootless-containers/rootlesskit/v2/cmd/rootlesskit"},
		program{module: "coredns"},
		program{module: "pause"},
	)
}

func (p program) key() string {
	if p.pkg == "" {
		return p.module
	}
	return p.pkg
}

func (p program) tool(root string, progress io.Writer) tool.Program {
	t := tool.Program{
		Root: root, Module: "emulators/cluster/tools/" + p.module, Packages: []string{p.pkg}, Tags: p.tags,
		Name: p.module + "." + path.Base(p.pkg), Progress: progress,
	}
	if p.pkg == "" {
		t.Name, t.Packages = "cluster."+p.module, []string{"."}
	}
	if p.module == "kube" {
		t.Vars = thirdparty.VersionVars()
	}
	return t
}

// Build returns all programs. It builds those whose pinned versions have changed.
func Build(ctx context.Context, root string, progress io.Writer) (Programs, error) {
	built := Programs{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(buildsAtOnce)
	build := func(key string, path func() (string, error)) {
		group.Go(func() error {
			file, err := path()
			mu.Lock()
			defer mu.Unlock()
			built[key] = file
			return err
		})
	}
	for _, p := range programs() {
		build(p.key(), func() (string, error) { return p.tool(root, progress).Path(ctx) })
	}
	group.Go(func() error {
		local, err := thirdparty.Build(ctx, root, progress)
		mu.Lock()
		defer mu.Unlock()
		built["etcd"], built["traefik"] = local.Kube, local.Traefik
		return err
	})
	build("helm", func() (string, error) { return manifest.Helm(ctx, root, progress) })
	return built, group.Wait()
}
