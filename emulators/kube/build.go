package kube

import (
	"context"
	"io"

	"github.com/sluicegate/sluice/emulators/internal/tool"
)

// Programs are the files of the programs that a server needs.
type Programs struct{ Etcd, APIServer string }

// Build gives the programs, which it builds when the pins of tools/go.mod are new
// to this machine: some four minutes on two cores. progress, for a person to
// read, may be nil.
func Build(ctx context.Context, root string, progress io.Writer) (Programs, error) {
	var p Programs
	for _, want := range []struct {
		file      *string
		name, pkg string
	}{
		{&p.Etcd, "etcd", "go.etcd.io/etcd/server/v3"},
		{&p.APIServer, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	} {
		file, err := tool.Program{
			Root: root, Module: "emulators/kube/tools", Package: want.pkg, Name: want.name, Progress: progress,
		}.Path(ctx)
		if err != nil {
			return Programs{}, err
		}
		*want.file = file
	}
	return p, nil
}
