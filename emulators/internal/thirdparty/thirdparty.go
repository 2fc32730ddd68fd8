// Package thirdparty builds etcd, kube-apiserver and Traefik from source. One module pins them,
// with the versions of Sluice's go.mod. One command builds them, so each package is compiled
// once.
//
// Stubs in emulators/tools/stubs replace unused parts. A configuration that names a replaced
// part fails or logs an error.
package thirdparty

import (
	"context"
	"io"
	"path/filepath"

	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// Module is the folder of the pinning go.mod.
const Module = "emulators/tools"

// Traefik is Traefik's module.
const Traefik = "github.com/traefik/traefik/v3"

// Programs are the files of the programs.
type Programs struct {
	Kube    string // the first argument is etcd or kube-apiserver
	Traefik string
}

// VersionVars returns linker settings. Clients reject an API server with an unreadable or old
// version.
func VersionVars() []string {
	const at = "k8s.io/component-base/version."
	return []string{at + "gitVersion=v1.36.3", at + "gitMajor=1", at + "gitMinor=36"}
}

// compilerOptions omits debug information in packages that Sluice does not import, and
// optimization in those that run rarely.
func compilerOptions() []string {
	const small, quick = "=-dwarf=false", "=-dwarf=false -N -l"
	return []string{
		"github.com/google/cel-go/..." + small, "github.com/traefik/..." + small, "go.etcd.io/..." + small, "k8s.io/apiserver/..." + small,
		"k8s.io/component-base/..." + small, "k8s.io/kube-aggregator/..." + small,
		"github.com/traefik/traefik/v3/pkg/provider/..." + quick, "k8s.io/dynamic-resource-allocation/..." + quick,
		"k8s.io/kubernetes/..." + quick, "sigs.k8s.io/gateway-api/..." + quick,
		"k8s.io/kubernetes/plugin/pkg/auth/..." + small, // checks each request
	}
}

// Build returns the programs. It builds them unless this machine has built these pins. progress
// may be nil.
func Build(ctx context.Context, root string, progress io.Writer) (Programs, error) {
	dir, err := tool.Program{
		Root: root, Module: Module, Name: "thirdparty", Packages: []string{"./kube", Traefik + "/cmd/traefik"},
		Stubs: []string{"github.com/go-acme/lego/v4", Traefik, "k8s.io/apiserver"}, Vars: VersionVars(), Compiler: compilerOptions(), Progress: progress,
	}.Path(ctx)
	return Programs{Kube: filepath.Join(dir, "kube"), Traefik: filepath.Join(dir, "traefik")}, err
}
