package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

func startEtcd(ctx context.Context, o Options, program string) (*child.Service, error) {
	data := filepath.Join(o.Dir, "etcd")
	// What a former server left is encrypted with a key that is gone.
	if err := os.RemoveAll(data); err != nil {
		return nil, fmt.Errorf("empty etcd: %w", err)
	}
	client := fmt.Sprintf("http://127.0.0.1:%d", o.EtcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", o.EtcdPeerPort)
	command := child.Command{
		Path: program,
		Args: []string{
			"--name=local", "--data-dir=" + data, "--unsafe-no-fsync",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=local=" + peer,
			"--log-level=warn",
		},
		Env:     append(os.Environ(), o.Env...),
		LogFile: filepath.Join(o.LogDir, "etcd.log"),
	}
	return child.Run(ctx, "etcd", startLimit, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, client+"/health") }
	})
}
