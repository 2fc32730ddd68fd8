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
	standinHost  = "127.0.0.3"           // where the stand-in listens
	firstHost    = 10                    // 127.0.0.10 is the first checker's, as long as it is not replaced
	gateEvery    = 20 * time.Millisecond // from one look at the endpoints, or for the certificate, to the next
	checkerGrace = 50 * time.Second      // from SIGTERM to SIGKILL: the drain and the last flush
)

// preStop is from the moment when a checker's Service no longer leads to it to its
// SIGTERM, as the preStop hook of infra/chart has it, but shorter: here endpoints
// change at once.
const preStop = time.Second

// replica is one checker of some generation: a rolling update replaces it by one of
// the next, which has another pod's name and listens on another address.
type replica struct{ index, generation int }

// process names it in the stack, e.g. "checker-0", whatever its generation.
func (r replica) process() string { return checkerFunction + "-" + strconv.Itoa(r.index) }

// pod names it among the endpoints and in the store, e.g. "checker-0-3".
func (r replica) pod() string {
	if r.generation == 0 {
		return r.process()
	}
	return r.process() + "-" + strconv.Itoa(r.generation)
}

// processOf gives the process that a pod's name belongs to, "" of what is no checker's.
func processOf(pod string) string {
	rest, ok := strings.CutPrefix(pod, checkerFunction+"-")
	if !ok {
		return ""
	}
	index, _, _ := strings.Cut(rest, "-") // from the generation
	return checkerFunction + "-" + index
}

// host is where it listens, an address of its own as a pod has; two generations are there
// at once.
func (r replica) host() string {
	return "127.0.0." + strconv.Itoa(firstHost+r.index+mostCheckers*(r.generation%2))
}

// startGate starts the checkers and their stand-in, and what leads to them.
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

// balance starts the balancers of both Services and follows which pods are ready.
func (s *Stack) balance(life context.Context) error {
	services := map[string]*balancer.Balancer{}
	for _, name := range []string{checkerService, replicasService} {
		b, err := balancer.Listen(life, net.JoinHostPort(s.addresses[name], strconv.Itoa(checkerTarget)), nil, s.log)
		if err != nil {
			return err
		}
		s.opened(b.Close)
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

// addPod has a pod probed at its address.
func (s *Stack) addPod(life context.Context, pod, address string) {
	s.mu.Lock()
	s.listens[pod] = address
	s.mu.Unlock()
	s.pods.Add(life, endpoints.Pod{Name: pod, Probe: func(ctx context.Context) error {
		return s.askGate(ctx, address, "/readyz")
	}})
}

// startChecker starts a replica and waits until it is ready.
func (s *Stack) startChecker(ctx, life context.Context, r replica) (*child.Service, error) {
	address := s.o.at(r.host(), checkerPort)
	s.addPod(life, r.pod(), address)
	spent := filepath.Join(s.path("spent"), r.pod()) // as the pod's volume in infra/chart
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

// startStandin starts the checkers' stand-in. It is not ready while they are.
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

// waitListed waits until the checkers' Service leads to a pod, and to the stand-in no
// longer.
func (s *Stack) waitListed(ctx context.Context, pod string) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	return child.Until(ctx, gateEvery, func() error {
		if !s.pods.Ready(pod) || (pod != standinFunction && s.pods.Ready(standinFunction)) {
			return fmt.Errorf("wait until the Service leads to %s: it does not yet", pod)
		}
		return nil
	})
}

// askGate asks a checker or the stand-in for a sign of life.
func (s *Stack) askGate(ctx context.Context, address, path string) error {
	transport, err := s.toGate()
	if err != nil {
		return err
	}
	return child.Get(ctx, &http.Client{Transport: transport}, "https://"+address+path)
}

// toGate reaches each checker and the stand-in at their own addresses. Their certificate
// is for the Service's, and a renewal may change the authority.
func (s *Stack) toGate() (*http.Transport, error) {
	ca, err := os.ReadFile(s.checkerCA())
	if err != nil {
		return nil, fmt.Errorf("read the checkers' authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("read the checkers' authority: no certificate in it")
	}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: s.addresses[checkerService], MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}, nil
}

func (s *Stack) checkerCA() string { return s.path("secrets/" + checkerSecret + "/ca.crt") }

// waitCertificate waits until the checkers' Secret is mounted.
func (s *Stack) waitCertificate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, functionLimit)
	defer cancel()
	return child.Until(ctx, gateEvery, func() error {
		if _, err := os.Stat(s.checkerCA()); err != nil {
			return fmt.Errorf("wait for the Secret %s, which wiring makes: %w", checkerSecret, err)
		}
		return nil
	})
}

// Roll replaces the checkers as a Deployment with one more than wanted (maxSurge 1)
// and none less (maxUnavailable 0) does: a new one starts, and once the Service leads
// to it, an old one is taken out of the Service and then told to end, which lets open
// requests finish and writes what is counted. Info tells where the new ones listen.
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

// swap makes the fresh replica the one of its name. The old one stays among the
// stack's processes until it has ended.
func (s *Stack) swap(old, fresh replica, next *managed) (leaving *managed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaving = s.services[old.process()]
	leaving.meant = true
	s.services[old.pod()+" (replaced)"] = leaving
	s.services[fresh.process()] = next
	s.replicas[fresh.index] = fresh
	s.info.Checkers = slices.Clone(s.info.Checkers) // Info has given the old one away
	s.info.CheckerMetrics = slices.Clone(s.info.CheckerMetrics)
	s.info.Metrics = maps.Clone(s.info.Metrics)
	s.info.Checkers[fresh.index] = "https://" + s.o.at(fresh.host(), checkerPort)
	s.info.CheckerMetrics[fresh.index] = "http://" + s.o.at(fresh.host(), metricsPort) + "/metrics"
	s.info.Metrics[fresh.process()] = s.info.CheckerMetrics[fresh.index]
	return leaving
}
