// Package thirdparty builds etcd, kube-apiserver and Traefik from source. One module pins them, and one
// command builds them, so each package is compiled once.
//
// The module requires the versions of Sluice's go.mod, so packages that Sluice also uses are compiled once for both.
// Stubs in emulators/tools/stubs replace parts of Traefik and kube-apiserver that no caller uses. A configuration
// that names one of them fails or logs an error.
package thirdparty

import (
	"context"
	"io"
	"path/filepath"

	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// Module is the folder of the go.mod that pins the programs.
const Module = "emulators/tools"

// Traefik is Traefik's module.
const Traefik = "github.com/traefik/traefik/v3"

// Programs are the files of the programs.
type Programs struct {
	Kube    string // etcd and kube-apiserver; the first argument names the program
	Traefik string
}

// VersionVars returns the linker's settings for a program of Kubernetes. Clients reject an API
// server with an unreadable or old version.
func VersionVars() []string {
	const at = "k8s.io/component-base/version."
	return []string{at + "gitVersion=v1.36.3", at + "gitMajor=1", at + "gitMinor=36"}
}

// compilerOptions returns the compiler's options for packages that Sluice's programs do not import. They have no debug
// information. Packages that run only at the start or rarely are not optimized.
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

// Build returns the programs. It builds them if their pins are new to this machine. progress may be nil.
func Build(ctx context.Context, root string, progress io.Writer) (Programs, error) {
	dir, err := tool.Program{
		Root: root, Module: Module, Name: "thirdparty", Packages: []string{"./kube", Traefik + "/cmd/traefik"},
		Stubs: []string{"github.com/go-acme/lego/v4", Traefik, "k8s.io/apiserver"}, Vars: VersionVars(), Compiler: compilerOptions(), Progress: progress,
	}.Path(ctx)
	return Programs{Kube: filepath.Join(dir, "kube"), Traefik: filepath.Join(dir, "traefik")}, err
}
