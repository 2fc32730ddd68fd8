// Package kube runs etcd and kube-apiserver, without nodes and controllers.
//
//   - Each Service gets a cluster IP from a range in 127.0.0.0/8, on which a local process can
//     listen. API servers reject loopback addresses as endpoints, so clients use the cluster
//     IP.
//   - Secrets are encrypted at rest with a new key at each start.
//   - Authorization is RBAC. The kubeconfig is an administrator's.
//
// Start empties the data directory, so no data survives a restart.
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

const startLimit = 90 * time.Second // under load; usually three seconds

// Options configure the servers. The zero value uses free ports and a temporary directory.
type Options struct {
	Root string // empty searches upwards from the working directory
	Dir  string // data, certificates and kubeconfig

	LogDir string // empty is Dir

	Port, EtcdPort, EtcdPeerPort int // on 127.0.0.1; 0 is any free port

	// Encryption is an EncryptionConfiguration; nil encrypts Secrets with a new key.
	Encryption []byte

	// AuditLog is a file with a line of JSON per call of a service account; "" writes none.
	AuditLog string

	Env      []string  // in addition to this process's environment
	Progress io.Writer // of long builds; nil discards it
}

// Server is a running API server with its etcd.
type Server struct {
	Etcd *child.Service
	API  *child.Service

	URL        string // e.g. "https://127.0.0.1:8082"
	EtcdURL    string // e.g. "http://127.0.0.1:8083"
	Kubeconfig string

	remove string
}

// Start starts both servers and waits until they are ready. They run until Close or the end of
// this process.
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

// complete sets the defaults. remove is the directory that it created, or "".
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
			return o, "", fmt.Errorf("create a directory of the API server: %w", err)
		}
		if o.Dir, err = os.MkdirTemp(local, "kube-"); err != nil {
			return o, "", fmt.Errorf("create a directory of the API server: %w", err)
		}
		remove = o.Dir
	}
	if o.LogDir == "" {
		o.LogDir = o.Dir
	}
	return o, remove, nil
}

// ServiceRange returns a /16 of loopback addresses. Ports that are at least 10 and less than
// 2500 apart have different ranges. 127.0.0.0/16 and 127.1.0.0/16, which systems use, are
// excluded.
func ServiceRange(port int) netip.Prefix {
	second := 2 + (port/10)%250
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(second), 0, 0}), 16)
}
