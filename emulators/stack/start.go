package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/emulators/ingress"
	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/progress"
	"github.com/sluicegate/sluice/emulators/internal/thirdparty"
	"github.com/sluicegate/sluice/emulators/issuer"
	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/stack/internal/balancer"
)

const auditLog = "kube-audit.log"

// start starts each part as soon as the parts that it needs are ready.
func (s *Stack) start(ctx, life context.Context) error {
	if err := s.buildTools(ctx); err != nil {
		return err
	}
	function := []string{"programs", "firestore", "services"}
	parts := []progress.Part{
		{Name: "programs", Run: s.build},
		{Name: "firestore", Run: s.startFirestore},
		{Name: "kube-apiserver", Run: s.startKube},
		{Name: "services", Needs: []string{"kube-apiserver"}, Run: func(ctx context.Context) error { return s.provision(ctx, life) }},
		{Name: "definitions", Needs: []string{"kube-apiserver"}, Run: func(ctx context.Context) error {
			return crds.Define(ctx, s.o.Root, s.dynamic, crds.Tekton(), crds.Serving(), crds.Traefik())
		}},
		{Name: "chart", Needs: []string{"services", "definitions"}, Run: s.applyChart},
		{Name: "accounts", Needs: []string{"chart"}, Run: func(ctx context.Context) error { return s.startAccounts(ctx, life) }},
		{Name: "traefik", Needs: []string{"definitions"}, Run: s.startIngress},
		{Name: "workloads", Needs: []string{"programs", "definitions"}, Run: func(ctx context.Context) error {
			return s.startEmulator(ctx, "workloads", workloadsProgram, workloadsPort)
		}},
		{Name: "build-system", Needs: []string{"programs", "definitions", "services"}, Run: func(ctx context.Context) error {
			sink := "BUILDS_SINK=" + s.functionURL("builds") + "/events/" + s.eventsToken
			return s.startEmulator(ctx, "build-system", buildsProgram, buildsPort, sink)
		}},
		{Name: "checkers", Needs: function, Run: func(ctx context.Context) error { return s.startGate(ctx, life) }},
	}
	for _, f := range functions() {
		needs := function
		if f.cluster {
			needs = append(slices.Clone(needs), "accounts")
		}
		if f.name != checkerFunction && f.name != standinFunction {
			parts = append(parts, progress.Part{Name: f.name, Needs: needs, Run: func(ctx context.Context) error { return s.startFunction(ctx, f) }})
		}
	}
	if err := s.progress.Run(ctx, parts); err != nil {
		return err
	}
	s.startTimers(life)
	if err := s.seed(ctx); err != nil {
		return err
	}
	return s.writeInfo()
}

// buildTools runs first, because it can take minutes.
func (s *Stack) buildTools(ctx context.Context) error {
	_, err := thirdparty.Build(ctx, s.o.Root, s.progress)
	return err
}

func (s *Stack) startFirestore(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.logs(), "firestore.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of firestore: %w", err)
	}
	s.onClose(log.Close)
	server, err := firestore.Start(ctx, firestore.Options{
		Port: s.o.port(firestorePort), Log: log, Env: s.mark(),
		Rules: filepath.Join(s.o.Root, "infra", "firestore", "firestore.rules"),
	})
	if err != nil {
		return err
	}
	s.manage("firestore", &managed{Service: server.Service})
	return nil
}

func (s *Stack) startKube(ctx context.Context) error {
	server, err := kube.Start(ctx, kube.Options{
		Root: s.o.Root, Dir: s.path("kube"), LogDir: s.logs(),
		Port: s.o.port(apiPort), EtcdPort: s.o.port(etcdPort), EtcdPeerPort: s.o.port(etcdPeerPort),
		AuditLog: filepath.Join(s.logs(), auditLog), Env: s.mark(), Progress: s.progress,
	})
	if err != nil {
		return err
	}
	s.manage("etcd", &managed{Service: server.Etcd})
	s.manage("kube-apiserver", &managed{Service: server.API})
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	s.config = config
	if s.api, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client of the API server: %w", err)
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client of the API server: %w", err)
	}
	return nil
}

func (s *Stack) startIngress(ctx context.Context) error {
	server, err := ingress.Start(ctx, ingress.Options{
		Root: s.o.Root, LogDir: s.logs(), Kubeconfig: s.path("kube/kubeconfig"),
		Port: s.o.port(ingressPort), InternalPort: s.o.port(internalPort), Env: s.mark(), Progress: s.progress,
	})
	if err != nil {
		return err
	}
	s.manage("traefik", &managed{Service: server.Service})
	s.alsoOnIPv6(ctx)
	return nil
}

// alsoOnIPv6 also serves the ingress on [::1], which some clients try first for localhost. Some
// machines lack this address.
func (s *Stack) alsoOnIPv6(ctx context.Context) {
	address := "[::1]:" + strconv.Itoa(s.o.port(ingressPort))
	b, err := balancer.Listen(ctx, address, []string{s.o.local(ingressPort)}, s.log)
	if err != nil {
		s.log.Info("no ingress on IPv6", "error", err)
		return
	}
	s.onClose(b.Close)
}

// startIssuer serves the CI system in this process.
func (s *Stack) startIssuer(ctx context.Context) error {
	tokens, err := issuer.New(s.issuerURL())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.local(issuerPort))
	if err != nil {
		return fmt.Errorf("listen as the issuer: %w", err)
	}
	server := &http.Server{Handler: tokens, ReadHeaderTimeout: functionLimit}
	s.tasks.Go(func() { _ = server.Serve(listener) })
	s.tasks.Go(func() {
		<-s.life.Done()
		_ = server.Close()
	})
	return nil
}

func (s *Stack) startEmulator(ctx context.Context, name, program string, port int, env ...string) error {
	command := child.Command{
		Path: s.program(),
		Args: []string{program},
		Env: append(append(s.environment(), env...),
			"KUBECONFIG="+s.path("kube/kubeconfig"),
			"HOST=127.0.0.1", "PORT="+strconv.Itoa(s.o.port(port))),
		LogFile: filepath.Join(s.logs(), name+".log"),
	}
	url := "http://" + s.o.local(port) + "/healthz"
	service, err := child.Run(ctx, name, functionLimit, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, url) }
	})
	if err != nil {
		return err
	}
	s.manage(name, &managed{Service: service})
	return nil
}

func (s *Stack) manage(name string, m *managed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services[name] = m
}

// Close stops all processes in the order of their dependencies. It can be called again.
func (s *Stack) Close() error {
	if s.attached {
		return nil
	}
	s.end()
	s.tasks.Wait()
	if s.pods != nil {
		s.pods.Wait()
	}
	err := s.closeProcesses()
	return errors.Join(err, s.closeResources(), os.RemoveAll(s.path(infoFile)))
}
