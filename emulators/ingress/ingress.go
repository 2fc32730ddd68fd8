// Package ingress runs Traefik as infra/traefik and infra/chart configure it. It does not trust
// clients' X-Forwarded-* headers, and the access log contains no headers except X-Request-Id,
// so it never contains a key or token. Request bodies have no time limit: Traefik's default of
// 60 s would end long uploads.
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

const startLimit = 3 * time.Minute // usually one second; longer on a machine that also links programs

// Options configure Traefik.
type Options struct {
	Root         string // empty searches upwards from the working directory
	LogDir       string
	Kubeconfig   string
	Port         int
	InternalPort int // /ping and /metrics

	// Secure adds the entry point "websecure". Routes enable TLS, not the entry point.
	Secure bool

	// Gateway adds the provider of the Gateway API.
	Gateway bool

	// Throttle is the minimum time between configuration changes; 0 is 100 ms.
	Throttle time.Duration

	Env      []string  // in addition to this process's environment
	Progress io.Writer // of a long build; nil discards it
}

// Server is a running Traefik.
type Server struct {
	*child.Service

	URL       string // e.g. "http://127.0.0.1:8080"
	SecureURL string // e.g. "https://127.0.0.1:7311"
	AccessLog string // one JSON object per line
}

// Start starts Traefik and waits until it is ready. It runs until Close or the end of this
// process. Traefik logs errors until its resources are defined (crds.Traefik).
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
			"--providers.kubernetesgateway.nativelbbydefault")
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
		// End open requests soon on shutdown.
		"--entrypoints.web.transport.lifecycle.gracetimeout=2s",
		fmt.Sprintf("--entrypoints.traefik.address=127.0.0.1:%d", o.InternalPort),
		"--providers.kubernetescrd",
		"--providers.kubernetescrd.allowexternalnameservices",
		"--providers.kubernetescrd.throttleduration=" + o.Throttle.String(),
		"--providers.providersthrottleduration=" + o.Throttle.String(),
		"--ping", "--ping.entrypoint=traefik",
		"--metrics.prometheus", "--metrics.prometheus.entrypoint=traefik",
		"--log.level=INFO", "--log.format=json", "--log.nocolor",
		"--accesslog", "--accesslog.format=json", "--accesslog.filepath=" + accessLog,
		"--accesslog.fields.headers.defaultmode=drop", "--accesslog.fields.headers.names.X-Request-Id=keep",
	}
}
