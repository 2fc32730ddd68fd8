// Package ingress runs Traefik, which thirdparty builds, on the API server of emulators/kube.
//
// It is set up as infra/traefik and infra/chart set it up in a cluster, as far as requests can
// tell: routes come from Traefik's own resources (provider kubernetescrd, no
// references across namespaces) and, asked for, from the Gateway API's, X-Forwarded-* headers of clients are not
// trusted, and the access log holds no headers but X-Request-Id, so that no key
// and no token is ever written. There is no limit on the time in which a request's body
// arrives: Traefik's default of 60 s would cut long uploads and streams.
package ingress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/ports"
	"github.com/sluicegate/sluice/emulators/internal/thirdparty"
	"github.com/sluicegate/sluice/emulators/internal/tool"
)

const startLimit = 3 * time.Minute // for a machine that also links programs; usually one second

// Options say where things go.
type Options struct {
	Root         string // of the repository; empty looks upwards from the working directory
	LogDir       string // for traefik.log and traefik-access.log
	Kubeconfig   string
	Port         int // of entry point "web" on 127.0.0.1; 0 is any that is free
	InternalPort int // of entry point "traefik": /ping and /metrics; 0 is any that is free

	// Secure adds entry point "websecure", on any free port. It has no TLS of its own:
	// the routes say that they are served over it.
	Secure bool

	// Gateway adds the provider of the Gateway API, whose definitions must be there too.
	Gateway bool

	// Throttle is the least time between two changes of Traefik's configuration; 0 is 100 ms.
	Throttle time.Duration

	Env      []string  // added to this process's environment
	Progress io.Writer // of a long build, for a person; nil drops it
}

// Server is a running Traefik.
type Server struct {
	*child.Service // its process

	URL       string // of entry point "web", e.g. "http://127.0.0.1:8080"
	SecureURL string // of entry point "websecure", e.g. "https://127.0.0.1:7311"
	AccessLog string // file, one JSON object a line
}

// Start starts Traefik and waits until it answers. Its resource definitions must
// be there (definitions.Traefik), else it logs errors until they are. It ends with Close,
// and with this process at the latest.
func Start(ctx context.Context, o Options) (*Server, error) {
	root, err := tool.Root(o.Root)
	if err != nil {
		return nil, err
	}
	programs, err := thirdparty.Build(ctx, root, o.Progress)
	if err != nil {
		return nil, err
	}
	free, err := ports.Free(ctx, 3)
	if err != nil {
		return nil, err
	}
	o.Port, o.InternalPort = cmp.Or(o.Port, free[0]), cmp.Or(o.InternalPort, free[1])
	s := &Server{
		URL:       fmt.Sprintf("http://127.0.0.1:%d", o.Port),
		AccessLog: filepath.Join(o.LogDir, "traefik-access.log"),
	}
	o.Throttle = cmp.Or(o.Throttle, 100*time.Millisecond)
	args := arguments(o, s.AccessLog)
	if o.Secure {
		s.SecureURL = fmt.Sprintf("https://127.0.0.1:%d", free[2])
		args = append(args, fmt.Sprintf("--entrypoints.websecure.address=127.0.0.1:%d", free[2]), "--entrypoints.websecure.transport.lifecycle.gracetimeout=2s")
	}
	if o.Gateway {
		args = append(args, "--providers.kubernetesgateway", "--providers.kubernetesgateway.throttleduration="+o.Throttle.String(),
			"--providers.kubernetesgateway.nativelbbydefault") // as the routes of its own say
	}
	command := child.Command{
		Path:    programs.Traefik,
		Args:    args,
		Env:     append(append(os.Environ(), o.Env...), "KUBECONFIG="+o.Kubeconfig),
		LogFile: filepath.Join(o.LogDir, "traefik.log"),
	}
	ping := fmt.Sprintf("http://127.0.0.1:%d/ping", o.InternalPort)
	s.Service, err = child.Run(ctx, "traefik", startLimit, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, ping) }
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func arguments(o Options, accessLog string) []string {
	return []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		fmt.Sprintf("--entrypoints.web.address=127.0.0.1:%d", o.Port),
		"--entrypoints.web.transport.respondingtimeouts.readtimeout=0s",
		// Give up open requests soon when the stack ends.
		"--entrypoints.web.transport.lifecycle.gracetimeout=2s",
		fmt.Sprintf("--entrypoints.traefik.address=127.0.0.1:%d", o.InternalPort),
		"--providers.kubernetescrd",
		"--providers.kubernetescrd.allowexternalnameservices", // Knative's Services are such
		"--providers.kubernetescrd.throttleduration=" + o.Throttle.String(),
		"--providers.providersthrottleduration=" + o.Throttle.String(),
		"--ping", "--ping.entrypoint=traefik",
		"--metrics.prometheus", "--metrics.prometheus.entrypoint=traefik",
		"--log.level=INFO", "--log.format=json", "--log.nocolor",
		"--accesslog", "--accesslog.format=json", "--accesslog.filepath=" + accessLog,
		"--accesslog.fields.headers.defaultmode=drop", "--accesslog.fields.headers.names.X-Request-Id=keep",
	}
}
