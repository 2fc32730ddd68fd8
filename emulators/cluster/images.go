package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/cluster/internal/image"
	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// infra/tekton and Tekton's controller refer to images with these tags.
const (
	echoImage     = "platform/echo:latest"
	shellImage    = "platform/busybox"
	gitTag        = "2.49.1"
	buildkitTag   = "v0.26.2-rootless"
	curlTag       = "8.17.0"
	certificates  = "/etc/ssl/certs/ca-certificates.crt"
	nonroot       = "65532:65532"
	busybox       = "/bin/busybox"
	imagesAtOnce  = 2 // images are in memory while they are pushed
	anyoneMayUse  = 0o1777
	readable      = 0o644
	buildkitUser  = 1000
	buildkitHome  = "/home/user"
	noImage       = "platform/none:latest" // for unused images in manifests
	daemonless    = "examples/buildctl-daemonless/buildctl-daemonless.sh"
	buildkitToml  = "[registry.\"%[1]s\"]\n  http = true\n  insecure = true\n[registry.\"docker.io\"]\n  mirrors = [\"%[1]s\"]\n[registry.\"" + exampleRegistry + "\"]\n  mirrors = [\"%[1]s\"]\n"
	subordinate   = "user:100000:65536\n"
	usersFile     = "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
	groupsFile    = "root:x:0:\nuser:x:1000:\n"
	buildkitDaemn = "github.com/moby/buildkit/cmd/buildkitd"
)

// pushAll pushes all images except Sluice's, and returns their references by package, such as
// "knative.dev/serving/cmd/queue".
func (o Options) pushAll(ctx context.Context, programs Programs) (map[string]string, error) {
	special, err := o.tools(ctx, programs)
	if err != nil {
		return nil, err
	}
	all := map[string]*image.Image{}
	for key, file := range programs {
		if project, ok := projectOf(key); ok {
			all[key] = project.image(path.Base(key), file)
		}
	}
	if i, ok := all[tekton+"/cmd/resolvers"]; ok {
		i.Files["/sbin/tini"] = image.File{From: "/usr/bin/tini-static"}
	}
	for _, i := range special {
		all[i.Repository] = i
	}
	refs := map[string]string{}
	for _, unused := range []string{eventing + "/cmd/apiserver_receive_adapter", eventing + "/cmd/auth_proxy", tekton + "/cmd/sidecarlogresults"} {
		refs[unused] = at(registryPort) + "/" + noImage
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(imagesAtOnce)
	for key, i := range all {
		group.Go(func() error {
			ref, err := i.Push(ctx, at(registryPort))
			mu.Lock()
			defer mu.Unlock()
			refs[key] = ref
			return err
		})
	}
	return refs, group.Wait()
}

// project is a project whose images have ko's layout.
type project string

func projectOf(pkg string) (project, bool) {
	for prefix, p := range map[string]project{serving: "knative/serving", eventing: "knative/eventing", tekton: "tekton"} {
		if strings.HasPrefix(pkg, prefix+"/cmd/") {
			return p, true
		}
	}
	return "", false
}

func (p project) image(name, file string) *image.Image {
	return &image.Image{
		Repository: string(p) + "-" + name,
		Files: map[string]image.File{
			"/ko-app/" + name: {From: file}, certificates: {From: certificates}, "/tmp": {Mode: anyoneMayUse}, "/var/run/ko": {},
		},
		User: nonroot, Entrypoint: []string{"/ko-app/" + name},
		Env: []string{"PATH=/ko-app", "KO_DATA_PATH=/var/run/ko", "SSL_CERT_FILE=" + certificates},
	}
}

func single(repository, file string) *image.Image {
	program := "/" + path.Base(repository)
	return &image.Image{
		Repository: repository, Entrypoint: []string{program}, User: nonroot,
		Files: map[string]image.File{program: {From: file}, "/tmp": {Mode: anyoneMayUse}},
	}
}

func (o Options) tools(ctx context.Context, programs Programs) ([]*image.Image, error) {
	links, err := shell(ctx)
	if err != nil {
		return nil, err
	}
	with := func(i image.Image) *image.Image {
		i.Files = map[string]image.File{
			busybox: {From: busybox}, "/tmp": {Mode: anyoneMayUse}, "/root": {}, certificates: {From: certificates},
			"/etc/passwd": {Text: usersFile, Mode: readable}, "/etc/group": {Text: groupsFile, Mode: readable},
		}
		for _, name := range links {
			i.Files["/bin/"+name] = image.File{Link: "busybox"}
		}
		return &i
	}
	echo := single("platform/echo", o.path("echo"))
	echo.Env = []string{"IDENTITY_URL=" + IdentityURL}
	traefik := &image.Image{
		Repository: "platform/traefik", User: nonroot, Entrypoint: []string{"/traefik"},
		Files: map[string]image.File{"/traefik": {From: programs["traefik"]}, certificates: {From: certificates}, "/tmp": {Mode: anyoneMayUse}},
	}
	git := with(image.Image{Repository: "alpine/git", Tag: gitTag, User: "0:0", Entrypoint: []string{"git"}, Env: []string{"PATH=/usr/bin:/bin", "HOME=/root"}})
	curl := with(image.Image{Repository: "curlimages/curl", Tag: curlTag, User: "100:101", Entrypoint: []string{"/usr/bin/curl"}, Env: []string{"PATH=/usr/bin:/bin"}})
	busybox := with(image.Image{Repository: shellImage, User: nonroot, Entrypoint: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}})
	buildkit, err := o.buildkit(ctx, programs, with)
	if err != nil {
		return nil, err
	}
	core := "/usr/lib/git-core/"
	git.Files["/usr/share/git-core/templates"] = image.File{}
	for _, add := range []error{
		traefik.Libraries(ctx, programs["traefik"]), curl.WithLibraries(ctx, "/usr/bin/curl"),
		git.WithLibraries(ctx, "/usr/bin/git", core+"git", core+"git-remote-http", core+"git-remote-https"),
	} {
		if add != nil {
			return nil, add
		}
	}
	return []*image.Image{
		single(pauseImage, programs["pause"]), single("platform/coredns", programs["coredns"]), echo, traefik, git, curl, busybox, buildkit,
	}, nil
}

func shell(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of %s: %w", busybox, err)
	}
	var names []string
	for name := range strings.FieldsSeq(string(out)) {
		if name != "busybox" {
			names = append(names, name)
		}
	}
	return names, nil
}

// buildkit returns BuildKit's rootless image. It differs from the published one only in the
// registries: it uses the cluster's registry, without TLS, in place of all others.
func (o Options) buildkit(ctx context.Context, programs Programs, with func(image.Image) *image.Image) (*image.Image, error) {
	i := with(image.Image{
		Repository: "moby/buildkit", Tag: buildkitTag, User: "1000:1000", Entrypoint: []string{"rootlesskit"},
		Volumes: []string{buildkitHome + "/.local/share/buildkit"},
		Env: []string{
			"PATH=/usr/bin:/bin", "HOME=" + buildkitHome, "USER=user", "XDG_RUNTIME_DIR=/run/user/1000",
			"TMPDIR=" + buildkitHome + "/.local/tmp", "BUILDKIT_HOST=unix:///run/user/1000/buildkit/buildkitd.sock",
		},
	})
	runc, err := exec.LookPath("/usr/sbin/runc")
	if err != nil {
		return nil, fmt.Errorf("find runc: %w", err)
	}
	module, err := tool.ModuleDir(ctx, filepath.Join(o.Root, "emulators/cluster/tools/buildkit"), "github.com/moby/buildkit")
	if err != nil {
		return nil, err
	}
	if err := i.WithLibraries(ctx, "/usr/bin/newuidmap", "/usr/bin/newgidmap"); err != nil {
		return nil, err
	}
	if err := i.Libraries(ctx, runc); err != nil {
		return nil, err
	}
	// Set-user-ID programs fail in a pod. These capabilities replace them.
	const setgid, setuid = 1 << 6, 1 << 7
	i.Files["/usr/bin/newuidmap"] = image.File{From: "/usr/bin/newuidmap", Caps: capability(setuid)}
	i.Files["/usr/bin/newgidmap"] = image.File{From: "/usr/bin/newgidmap", Caps: capability(setgid)}
	i.Files["/usr/bin/buildkit-runc"] = image.File{From: runc}
	i.Files["/usr/bin/buildctl-daemonless.sh"] = image.File{From: filepath.Join(module, daemonless)}
	for _, pkg := range []string{buildkitDaemn, "github.com/moby/buildkit/cmd/buildctl", "github.com/rootless-containers/rootlesskit/v2/cmd/rootlesskit"} {
		i.Files["/usr/bin/"+path.Base(pkg)] = image.File{From: programs[pkg]}
	}
	i.Files["/etc/subuid"] = image.File{Text: subordinate, Mode: readable}
	i.Files["/etc/subgid"] = image.File{Text: subordinate, Mode: readable}
	for _, dir := range []string{"", "/.local", "/.local/tmp", "/.local/share", "/.local/share/buildkit", "/.config", "/.config/buildkit"} {
		i.Files[buildkitHome+dir] = image.File{Owner: buildkitUser}
	}
	i.Files["/run/user/1000"] = image.File{Owner: buildkitUser, Mode: 0o700}
	i.Files[buildkitHome+"/.config/buildkit/buildkitd.toml"] = image.File{Text: fmt.Sprintf(buildkitToml, at(registryPort)), Mode: readable}
	return i, nil
}

// capability returns an extended attribute with one of the first 32 capabilities (vfs_cap_data,
// revision 2, effective).
func capability(mask byte) []byte {
	return append([]byte{1, 0, 0, 2, mask}, make([]byte, 15)...)
}

func (o Options) buildEcho(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", o.path("echo"), "./emulators/cluster/echo")
	cmd.Dir = o.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the echo: %w: %s", err, out)
	}
	return nil
}
