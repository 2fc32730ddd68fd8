// Package kube runs a real Kubernetes API: etcd and kube-apiserver, which thirdparty builds as
// one program.
//
// There are no nodes and no controllers. What makes it useful without them:
//
//   - Every Service gets a cluster IP from a range inside 127.0.0.0/8, so a local
//     process can listen on it and be the Service's pods. API servers refuse
//     loopback addresses as endpoints, so Services have none: a client uses the
//     cluster IP.
//   - Secrets are encrypted at rest with a key made at each start.
//   - Authorization is RBAC; the kubeconfig is an administrator's.
//
// All that is stored ends with Close: it is in a directory that Start empties,
// and etcd does not wait for the disk.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/ports"
	"github.com/sluicegate/sluice/emulators/internal/thirdparty"
	"github.com/sluicegate/sluice/emulators/internal/tool"
)

const startLimit = 90 * time.Second // a machine under load; usually three seconds

// Options say where things go. The zero value takes free ports and a directory
// under .local, which Close removes.
type Options struct {
	Root string // of the repository; empty looks upwards from the working directory
	Dir  string // for data, certificates, the kubeconfig and, without LogDir, logs

	LogDir string // for etcd.log and kube-apiserver.log

	Port, EtcdPort, EtcdPeerPort int // on 127.0.0.1; 0 takes a free one

	// Encryption is an EncryptionConfiguration; nil is one with a new key for Secrets.
	Encryption []byte

	// AuditLog takes a line of JSON for each call of a service account, without bodies;
	// "" drops them.
	AuditLog string

	Env      []string  // added to this process's environment
	Progress io.Writer // of long builds, for a person; nil drops it
}

// Server is a running API server with its etcd.
type Server struct {
	Etcd *child.Service
	API  *child.Service

	URL        string // of the API, e.g. "https://127.0.0.1:8082"
	EtcdURL    string // e.g. "http://127.0.0.1:8083"
	Kubeconfig string // file of an administrator

	remove string // directory that Close removes, if any
}

// Start starts both and waits until the API server is ready. They end with
// Close, and with this process at the latest.
func Start(ctx context.Context, o Options) (*Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o, remove, err := o.complete(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL:        fmt.Sprintf("https://127.0.0.1:%d", o.Port),
		EtcdURL:    fmt.Sprintf("http://127.0.0.1:%d", o.EtcdPort),
		Kubeconfig: filepath.Join(o.Dir, "kubeconfig"),
		remove:     remove,
	}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	programs, err := thirdparty.Build(ctx, o.Root, o.Progress)
	if err != nil {
		return err
	}
	if err := o.writeFiles(s.URL); err != nil {
		return err
	}
	if s.Etcd, err = startEtcd(ctx, o, programs.Kube); err != nil {
		return err
	}
	s.API, err = startAPI(ctx, o, programs.Kube)
	return err
}

// Close stops the API server and then etcd.
func (s *Server) Close() error {
	var err error
	for _, service := range []*child.Service{s.API, s.Etcd} {
		if service != nil {
			err = errors.Join(err, service.Close())
		}
	}
	if s.remove != "" {
		err = errors.Join(err, os.RemoveAll(s.remove))
	}
	return err
}

// complete fills in what is not said. remove is the directory that was made for
// this server alone, if any.
func (o Options) complete(ctx context.Context) (full Options, remove string, err error) {
	if o.Root, err = tool.Root(o.Root); err != nil {
		return o, "", err
	}
	free, err := ports.Free(ctx, 3)
	if err != nil {
		return o, "", err
	}
	for i, p := range []*int{&o.Port, &o.EtcdPort, &o.EtcdPeerPort} {
		if *p == 0 {
			*p = free[i]
		}
	}
	local := filepath.Join(o.Root, ".local")
	if o.Dir == "" {
		if err = os.MkdirAll(local, 0o750); err != nil {
			return o, "", fmt.Errorf("make a place for the API server: %w", err)
		}
		if o.Dir, err = os.MkdirTemp(local, "kube-"); err != nil {
			return o, "", fmt.Errorf("make a place for the API server: %w", err)
		}
		remove = o.Dir
	}
	if o.LogDir == "" {
		o.LogDir = o.Dir
	}
	return o, remove, nil
}

// ServiceRange derives a /16 of loopback addresses from a port, so that servers
// whose ports lie at least 10 and less than 2500 apart have different ones.
// 127.0.0.0/16 and 127.1.0.0/16 are never it: systems keep addresses there.
func ServiceRange(port int) netip.Prefix {
	second := 2 + (port/10)%250
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(second), 0, 0}), 16)
}
