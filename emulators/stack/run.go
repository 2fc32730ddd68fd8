package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/stack/internal/balancer"
)

const (
	mountEvery    = 20 * time.Millisecond // from one look for a mounted file to the next
	functionTries = 3                     // to start a function
	functionPause = time.Second           // between them

	// functionGrace is from SIGTERM to SIGKILL, as a pod's grace period: longer than
	// the drain and a checker's last flush together (see funcmain.Config).
	functionGrace = 45 * time.Second
)

// startFunctions starts the functions side by side; the checkers once wiring has
// made their certificate.
func (s *Stack) startFunctions(ctx, life context.Context, list []function) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range list {
		if f.name != checkerFunction {
			g.Go(func() error { return s.startFunction(ctx, f) })
			continue
		}
		if !has(list, "wiring") {
			s.progress.say("no checkers: without the function wiring they have no certificate")
			continue
		}
		g.Go(func() error { return s.startCheckers(ctx, life, f) })
	}
	return g.Wait()
}

func (s *Stack) startFunction(ctx context.Context, f function) error {
	command := child.Command{
		Path:    s.path("bin/" + f.name),
		Env:     s.functionEnvironment(f, s.addresses[f.service()], functionPort, nil),
		LogFile: filepath.Join(s.logs(), f.name+".log"),
		Grace:   functionGrace,
	}
	url := s.functionURL(f.service()) + "/healthz"
	service, err := s.tryFunction(ctx, f.name, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, url) }
	})
	if err != nil {
		return err
	}
	s.manage(f.name, service, true)
	return nil
}

// tryFunction starts a function, and again when it ends instead of answering, as a
// kubelet does: what it needs may be slow on a busy machine. One that fails each
// time fails the start.
func (s *Stack) tryFunction(ctx context.Context, name string, prepare func() (child.Command, child.Check)) (*child.Service, error) {
	again := time.NewTicker(functionPause)
	defer again.Stop()
	for try := 1; ; try++ {
		service, err := child.Run(ctx, name, functionLimit, prepare)
		if err == nil || try == functionTries || ctx.Err() != nil {
			return service, err
		}
		s.log.Warn("function did not start", "function", name, "try", try, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}

// startCheckers starts both replicas, and the balancer of their Service.
func (s *Stack) startCheckers(ctx, life context.Context, f function) error {
	if err := s.waitCertificate(ctx); err != nil {
		return err
	}
	endpoints := make([]string, checkers)
	g, gctx := errgroup.WithContext(ctx)
	for i := range checkers {
		endpoints[i] = s.o.local(checkerPort + i)
		g.Go(func() error { return s.startChecker(gctx, f, i) })
	}
	address := net.JoinHostPort(s.addresses[checkerService], strconv.Itoa(checkerTarget))
	b, err := balancer.Listen(life, address, endpoints, s.log)
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	s.opened(b.Close)
	return g.Wait()
}

func (s *Stack) startChecker(ctx context.Context, f function, i int) error {
	name := checkerFunction + "-" + strconv.Itoa(i)
	command := child.Command{
		Path: s.path("bin/" + f.name),
		Env: s.functionEnvironment(f, "127.0.0.1", s.o.port(checkerPort+i), map[string]string{
			"POD_NAME":     name,
			"TLS_DIR":      s.path("secrets/" + checkerSecret),
			"METRICS_PORT": strconv.Itoa(s.o.port(metricsPort + i)),
		}),
		LogFile: filepath.Join(s.logs(), name+".log"),
		Grace:   functionGrace,
	}
	service, err := s.tryFunction(ctx, name, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return s.askChecker(ctx, i) }
	})
	if err != nil {
		return err
	}
	s.manage(name, service, true)
	return nil
}

// askChecker asks a replica whether it is ready. The certificate is for the
// Service's address, and a renewal may change the authority.
func (s *Stack) askChecker(ctx context.Context, i int) error {
	ca, err := os.ReadFile(s.checkerCA())
	if err != nil {
		return fmt.Errorf("read the checkers' authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return errors.New("read the checkers' authority: no certificate in it")
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: s.addresses[checkerService], MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	return child.Get(ctx, &http.Client{Transport: transport}, "https://"+s.o.local(checkerPort+i)+"/readyz")
}

func (s *Stack) checkerCA() string { return s.path("secrets/" + checkerSecret + "/ca.crt") }

// waitCertificate waits until the checkers' Secret is mounted.
func (s *Stack) waitCertificate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	tick := time.NewTicker(mountEvery)
	defer tick.Stop()
	for {
		if _, err := os.Stat(s.checkerCA()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the Secret %s, which wiring makes: %w", checkerSecret, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
