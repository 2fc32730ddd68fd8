package wiring

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.MainAlone(m)) }

// site is the function with a real store, API server and Traefik, a fake checker, and one app that
// returns 200.
type site struct {
	*testing.T
	cfg     Config
	store   *store.Store
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	service *Service
	ref     app.Ref
	host    string                        // of the app
	verdict atomic.Pointer[problem.Error] // for requests without the right key
	copies  atomic.Bool                   // the app copies the gate's response to probes
	earlier atomic.Bool                   // the checker's proofs name no generation
	checker string                        // its address
}

func newSite(t *testing.T) *site {
	t.Helper()
	return siteOf(t, cluster.TraefikRoutes)
}

func siteOf(t *testing.T, kind cluster.RouteKind) *site {
	t.Helper()
	s := &site{T: t, store: storetest.New(t)}
	s.verdict.Store(problem.FromCode(problem.InvalidKey))
	var err error
	if s.kube, err = kubernetes.NewForConfig(clustertest.Config(t)); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(clustertest.Config(t)); err != nil {
		t.Fatal(err)
	}
	// The port is closed until serveChecker. The random address prevents conflicts.
	l := s.listen(fmt.Sprintf("127.%d.%d.%d:0", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254)))
	s.checker = l.Addr().String()
	check.OK(t, l.Close())
	s.cfg = Config{
		CheckerURL: "https://" + s.checker, IngressURL: clustertest.Ingress(t),
		Accounts: cluster.Accounts{SystemNamespace: clustertest.Name()}, CheckerSecret: "sluice-checker-tls", Routes: cluster.Routes{EntryPoints: []string{"web"}},
		Workers: 4, ProofPatience: 10 * time.Second, ReproveEvery: time.Hour,
	}
	s.cfg.Gateway = clustertest.Gateway(t)
	s.writes(kind, "")
	s.ref = s.makeApp("hello")
	s.host = s.app().Host
	return s
}

func (s *site) checkerHost() string {
	host, _, _ := net.SplitHostPort(s.checker)
	return host
}

func (s *site) writes(kind, former cluster.RouteKind) {
	s.Helper()
	s.cfg.Kind, s.cfg.FormerKind = kind, former
	var err error
	s.cluster, err = cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(s), Routes: &s.cfg.Routes, CheckerURL: s.cfg.CheckerURL, SystemNamespace: s.cfg.SystemNamespace})
	check.OK(s, err)
	s.service = s.replica()
}

func (s *site) listen(address string) net.Listener {
	s.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", address)
	check.OK(s, err)
	return l
}

func (s *site) replica() *Service {
	s.Helper()
	service, err := New(s.cfg, s.store, s.cluster, functest.Quiet())
	check.OK(s, err)
	s.Cleanup(service.Close)
	return service
}

func (s *site) makeApp(name string) app.Ref {
	s.Helper()
	return s.makeAppAt(name, name+"."+s.cfg.SystemNamespace+".localhost")
}

func (s *site) makeAppAt(name, host string) app.Ref {
	s.Helper()
	project := s.cfg.SystemNamespace
	storetest.EnvironmentOf(s, s.store, app.Project{Name: project}, "prod")
	return storetest.App(s, s.store, app.App{
		Name: name, Project: project, Environment: "prod", Host: host,
		Image: "registry.example/hello:v1", Revision: 1, Gate: app.Gate{State: app.Ungated, Since: time.Now()},
	}).Ref()
}

// serveChecker serves checks with the certificate that wiring issued.
func (s *site) serveChecker() {
	s.Helper()
	secret, err := s.cluster.Secret(s.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret)
	check.OK(s, err)
	pair, err := tls.X509KeyPair(secret.Data[certEntry], secret.Data[keyEntry])
	check.OK(s, err)
	key, err := checkers.DeriveProofKey(secret.Data[keyEntry])
	check.OK(s, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if nonce := r.Header.Get(checkers.NonceHeader); nonce != "" {
			subject := strings.TrimPrefix(r.URL.Path, "/check/")
			if s.earlier.Load() {
				subject = s.ref.Namespace + "/" + s.ref.Name
			}
			w.Header().Set(checkers.ProofHeader, key.SignProof(nonce, subject))
		}
		if strings.HasPrefix(r.URL.Path+"/", "/check/"+s.ref.Namespace+"/"+s.ref.Name+"/") && r.Header.Get("X-Api-Key") == "good" {
			w.Header().Set("X-Service-Key-Prefix", "ab12cd34")
			return
		}
		httpapi.WriteProblem(w, s.verdict.Load())
	}))
	check.OK(s, server.Listener.Close())
	server.Listener = s.listen(s.checker)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	s.Cleanup(server.Close)
}

// serveApp serves the app at the Service's address, a loopback address.
func (s *site) serveApp() {
	s.Helper()
	service, err := s.kube.CoreV1().Services(s.ref.Namespace).Get(s.Context(), s.ref.Name, metav1.GetOptions{})
	check.OK(s, err)
	l := s.listen(net.JoinHostPort(service.Spec.ClusterIP, "8080"))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.copies.Load() && r.URL.Path == ProbePath {
			httpapi.WriteProblem(w, problem.FromCode(problem.InvalidKey))
			return
		}
		_ = json.NewEncoder(w).Encode(r.Header)
	}))
	check.OK(s, server.Listener.Close())
	server.Listener = l
	server.Start()
	s.Cleanup(server.Close)
}

func (s *site) ready() {
	s.Helper()
	s.tick()
	s.serveApp()
	s.serveChecker()
	s.answers(http.StatusOK)
}

func (s *site) app() app.App {
	s.Helper()
	a, err := s.store.App(s.Context(), s.ref.Namespace, s.ref.Name)
	check.OK(s, err)
	return a
}

func (s *site) wantGate(state app.GateState, message string) {
	s.Helper()
	if got := s.app().Gate; got.State != state || got.Message != message {
		s.Fatalf("gate: got %s %q, want %s %q", got.State, got.Message, state, message)
	}
}

// settles resyncs until the gate is as expected: a busy ingress may not have the route at the
// first probe.
func (s *site) settles(state app.GateState, message string) {
	s.Helper()
	s.within(func() string {
		s.tick()
		if got := s.app().Gate; got.State != state || got.Message != message {
			return fmt.Sprintf("gate: got %s %q, want %s %q", got.State, got.Message, state, message)
		}
		return ""
	})
}

func (s *site) turn(on bool) {
	s.Helper()
	_, err := s.store.UpdateApp(s.Context(), s.ref, func(a app.App) (app.App, error) {
		a.RequireAPIKey = on
		a.Gate = a.Gate.Switch(on, time.Now())
		return a, nil
	})
	check.OK(s, err)
}

func event(kind, subject string) cloudevents.Event {
	e := cloudevents.NewEvent()
	e.SetType(kind)
	e.SetSource("/test")
	e.SetID("1")
	if subject != "" {
		e.SetSubject(subject)
	}
	return e
}

func (s *site) tick() {
	s.Helper()
	check.OK(s, s.service.Receive(s.Context(), event(funcmain.PingType, "")))
}

func (s *site) requested() {
	s.Helper()
	check.OK(s, s.service.Receive(s.Context(), event(app.GateRequested, s.ref.String())))
}

func (s *site) request(headers map[string]string) (int, http.Header) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.cfg.IngressURL+"/x", http.NoBody)
	check.OK(s, err)
	req.Host = s.host
	for name, value := range headers {
		req.Header[name] = []string{value}
	}
	resp, err := http.DefaultClient.Do(req)
	check.OK(s, err)
	defer func() { _ = resp.Body.Close() }()
	var got http.Header
	if resp.StatusCode == http.StatusOK {
		check.OK(s, json.NewDecoder(resp.Body).Decode(&got))
	}
	return resp.StatusCode, got
}

func (s *site) within(wrong func() string) {
	s.Helper()
	check.Eventually(s, "be as expected", time.Minute, func() error {
		if what := wrong(); what != "" {
			return errors.New(what)
		}
		return nil
	})
}

func (s *site) answers(want int) {
	s.Helper()
	s.within(func() string {
		if status, _ := s.request(nil); status != want {
			return fmt.Sprintf("the app answers %d, want %d", status, want)
		}
		return ""
	})
}

func (s *site) state() cluster.State {
	s.Helper()
	seen, err := s.cluster.Objects(s.Context(), s.ref)
	check.OK(s, err)
	ca, err := s.service.certify(s.Context())
	check.OK(s, err)
	return s.cluster.State(seen, s.app(), ca)
}

func (s *site) patch(resource, name, patch string) {
	s.Helper()
	kind := schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: resource}
	_, err := s.dynamic.Resource(kind).Namespace(s.ref.Namespace).Patch(s.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	check.OK(s, err)
}

func pool(t *testing.T, ca []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(ca) {
		t.Fatal("the PEM contains no CA certificate")
	}
	return p
}
