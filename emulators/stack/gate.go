package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/stack/internal/balancer"
	"github.com/sluicegate/sluice/emulators/stack/internal/endpoints"
)

const (
	standinHost  = "127.0.0.3"
	firstHost    = 10
	gateEvery    = 20 * time.Millisecond
	checkerGrace = 50 * time.Second // drain and final flush
)

// preStop corresponds to the preStop hook of infra/chart. It is shorter, because endpoints
// change immediately here.
const preStop = time.Second

// replica is a checker. A rolling update replaces it with its next generation, which has
// another pod name and address.
type replica struct{ index, generation int }

// process returns, for example, "checker-0".
func (r replica) process() string { return checkerFunction + "-" + strconv.Itoa(r.index) }

// pod returns, for example, "checker-0-3".
func (r replica) pod() string {
	if r.generation == 0 {
		return r.process()
	}
	return r.process() + "-" + strconv.Itoa(r.generation)
}

// processOf returns "" if the pod is not a checker's.
func processOf(pod string) string {
	rest, ok := strings.CutPrefix(pod, checkerFunction+"-")
	if !ok {
		return ""
	}
	index, _, _ := strings.Cut(rest, "-")
	return checkerFunction + "-" + index
}

// host returns the replica's address. It differs between consecutive generations, which run at
// the same time.
func (r replica) host() string {
	return "127.0.0." + strconv.Itoa(firstHost+r.index+mostCheckers*(r.generation%2))
}

func (s *Stack) startGate(ctx, life context.Context) error {
	if err := s.waitCertificate(ctx); err != nil {
		return err
	}
	if err := s.balance(life); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, r := range s.replicas {
		g.Go(func() error {
			service, err := s.startChecker(gctx, life, r)
			if err == nil {
				m := &managed{Service: service, function: true, pod: r.pod()}
				s.manage(r.process(), m)
				s.keepAlive(m, r)
			}
			return err
		})
	}
	g.Go(func() error { return s.startStandin(gctx, life) })
	if err := g.Wait(); err != nil {
		return err
	}
	for _, r := range s.replicas {
		if err := s.waitListed(ctx, r.pod()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) balance(life context.Context) error {
	services := map[string]*balancer.Balancer{}
	for _, name := range []string{checkerService, replicasService} {
		b, err := balancer.Listen(life, net.JoinHostPort(s.addresses[name], strconv.Itoa(checkerTarget)), nil, s.log)
		if err != nil {
			return err
		}
		s.onClose(b.Close)
		services[name] = b
	}
	s.pods = endpoints.New(s.log, func(ready []string) {
		var all, replicas []string
		for _, pod := range ready {
			at := s.listensAt(pod)
			all = append(all, at)
			if pod != standinFunction {
				replicas = append(replicas, at)
			}
		}
		services[checkerService].Set(all)
		services[replicasService].Set(replicas)
	})
	return nil
}

func (s *Stack) listensAt(pod string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listens[pod]
}

func (s *Stack) addPod(life context.Context, pod, address string) {
	s.mu.Lock()
	s.listens[pod] = address
	s.mu.Unlock()
	s.pods.Add(life, endpoints.Pod{Name: pod, Probe: func(ctx context.Context) error {
		return s.askGate(ctx, address, "/readyz")
	}})
}

func (s *Stack) startChecker(ctx, life context.Context, r replica) (*child.Service, error) {
	address := s.o.at(r.host(), checkerPort)
	s.addPod(life, r.pod(), address)
	spent := filepath.Join(s.path("spent"), r.pod()) // like the pod's volume in infra/chart
	if err := os.MkdirAll(spent, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", r.process(), err)
	}
	return s.run(ctx, instance{
		function: function{name: checkerFunction}, name: r.process(), host: r.host(), port: s.o.port(checkerPort),
		own:   map[string]string{"POD_NAME": r.pod(), "POD_IP": r.host(), "METRICS_PORT": strconv.Itoa(s.o.port(metricsPort)), "SPENT_DIR": spent},
		check: func(ctx context.Context) error { return s.askGate(ctx, address, "/readyz") },
		grace: checkerGrace,
	})
}

// startStandin starts the stand-in, which is ready only while no checker is.
func (s *Stack) startStandin(ctx, life context.Context) error {
	address := s.o.at(standinHost, checkerPort)
	s.addPod(life, standinFunction, address)
	service, err := s.run(ctx, instance{
		function: function{name: standinFunction}, name: standinFunction, host: standinHost, port: s.o.port(checkerPort),
		own:   map[string]string{"METRICS_PORT": strconv.Itoa(s.o.port(metricsPort))},
		check: func(ctx context.Context) error { return s.askGate(ctx, address, "/healthz") },
	})
	if err != nil {
		return err
	}
	s.manage(standinFunction, &managed{Service: service, function: true})
	return nil
}

// waitListed waits until the checkers' Service routes to a pod and not to the stand-in.
func (s *Stack) waitListed(ctx context.Context, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	return child.Until(ctx, gateEvery, func() error {
		if !s.pods.Ready(pod) || (pod != standinFunction && s.pods.Ready(standinFunction)) {
			return fmt.Errorf("the Service does not route to %s", pod)
		}
		return nil
	})
}

func (s *Stack) askGate(ctx context.Context, address, path string) error {
	transport, err := s.toGate()
	if err != nil {
		return err
	}
	return child.Get(ctx, &http.Client{Transport: transport}, "https://"+address+path)
}

// toGate returns a transport for the addresses of the checkers and the stand-in. Their
// certificate is valid for the Service's address, and a renewal may change the CA.
func (s *Stack) toGate() (*http.Transport, error) {
	ca, err := os.ReadFile(s.checkerCA())
	if err != nil {
		return nil, fmt.Errorf("read the checkers' CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("read the checkers' CA: no certificate found")
	}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: s.addresses[checkerService], MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}, nil
}

func (s *Stack) checkerCA() string { return s.path("secrets/" + checkerSecret + "/ca.crt") }

func (s *Stack) waitCertificate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	return child.Until(ctx, gateEvery, func() error {
		if _, err := os.Stat(s.checkerCA()); err != nil {
			return fmt.Errorf("wait for the Secret %s, which wiring creates: %w", checkerSecret, err)
		}
		return nil
	})
}

// Roll replaces the checkers one by one, like a Deployment with maxSurge 1 and maxUnavailable
// 0. An old checker leaves the Service before SIGTERM, finishes open requests and writes its
// counts. Info returns the new addresses.
func (s *Stack) Roll(ctx context.Context) error {
	for i := range s.replicas {
		if err := s.replace(ctx, i); err != nil {
			return fmt.Errorf("replace checker %d: %w", i, err)
		}
	}
	return s.writeInfo()
}

func (s *Stack) replace(ctx context.Context, i int) error {
	s.mu.Lock()
	old := s.replicas[i]
	s.mu.Unlock()
	fresh := replica{index: i, generation: old.generation + 1}
	service, err := s.startChecker(ctx, s.life, fresh)
	if err != nil {
		return err
	}
	next := &managed{Service: service, function: true, pod: fresh.pod()}
	leaving := s.swap(old, fresh, next)
	s.keepAlive(next, fresh)
	if err := s.waitListed(ctx, fresh.pod()); err != nil {
		return err
	}
	s.pods.Remove(old.pod())
	pause := time.NewTimer(preStop)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait before SIGTERM: %w", context.Cause(ctx))
	case <-pause.C:
	}
	if err := leaving.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.services, old.pod()+" (replaced)")
	s.mu.Unlock()
	return nil
}

// swap makes fresh the current replica. The old one remains a process of the stack until it has
// ended.
func (s *Stack) swap(old, fresh replica, next *managed) (leaving *managed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaving = s.services[old.process()]
	leaving.stopped = true
	s.services[old.pod()+" (replaced)"] = leaving
	s.services[fresh.process()] = next
	s.replicas[fresh.index] = fresh
	s.info.Checkers = slices.Clone(s.info.Checkers) // Info has returned the old slice
	s.info.CheckerMetrics = slices.Clone(s.info.CheckerMetrics)
	s.info.Metrics = maps.Clone(s.info.Metrics)
	s.info.Checkers[fresh.index] = "https://" + s.o.at(fresh.host(), checkerPort)
	s.info.CheckerMetrics[fresh.index] = "http://" + s.o.at(fresh.host(), metricsPort) + "/metrics"
	s.info.Metrics[fresh.process()] = s.info.CheckerMetrics[fresh.index]
	return leaving
}
