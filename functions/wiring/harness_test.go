package wiring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
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
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/storetest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.MainAlone(m)) }

// site is the function on a real store, API server and Traefik, with a checker
// whose verdict the test sets, and one app, which answers 200.
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
	verdict atomic.Pointer[problem.Error] // to requests without the right key
	copies  atomic.Bool                   // the app answers wiring's question as the gate would
	earlier atomic.Bool                   // the checker is of a release whose proofs name no generation
	checker string                        // its address; nobody listens there yet
}

func newSite(t *testing.T) *site {
	t.Helper()
	return siteOf(t, cluster.TraefikRoutes)
}

// siteOf is a site with routes of another kind.
func siteOf(t *testing.T, kind cluster.RouteKind) *site {
	t.Helper()
	s := &site{T: t, store: storetest.New(t)}
	s.verdict.Store(problem.Of(problem.InvalidKey))
	var err error
	if s.kube, err = kubernetes.NewForConfig(clustertest.Config(t)); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(clustertest.Config(t)); err != nil {
		t.Fatal(err)
	}
	// The port is closed until serveChecker. No other process takes it: the address is random.
	l := s.listen(fmt.Sprintf("127.%d.%d.%d:0", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254)))
	s.checker = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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

// checkerHost returns the address for which the checkers' certificate is.
func (s *site) checkerHost() string {
	host, _, _ := net.SplitHostPort(s.checker)
	return host
}

// writes starts the function anew with a kind of routes, and one that was there before.
func (s *site) writes(kind, former cluster.RouteKind) {
	s.Helper()
	s.cfg.Kind, s.cfg.FormerKind = kind, former
	var err error
	s.cluster, err = cluster.Open(cluster.Options{Kubeconfig: clustertest.Kubeconfig(s), Routes: &s.cfg.Routes, CheckerURL: s.cfg.CheckerURL})
	if err != nil {
		s.Fatal(err)
	}
	s.service = s.replica()
}

func (s *site) listen(address string) net.Listener {
	s.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	return l
}

// replica is another process of the function.
func (s *site) replica() *Service {
	s.Helper()
	service, err := New(s.cfg, s.store, s.cluster, slog.New(slog.DiscardHandler))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(service.Close)
	return service
}

// makeApp records an app; nothing of it is in the cluster yet.
func (s *site) makeApp(name string) app.Ref {
	s.Helper()
	return s.makeAppAt(name, name+"."+s.cfg.SystemNamespace+".localhost")
}

func (s *site) makeAppAt(name, host string) app.Ref {
	s.Helper()
	project := s.cfg.SystemNamespace
	err := s.store.CreateProject(s.Context(), app.Project{Name: project})
	if err == nil {
		err = s.store.CreateEnvironment(s.Context(), app.Environment{Project: project, Name: "prod", Namespace: project + "-prod"})
	}
	if err != nil && !problem.Is(err, problem.AlreadyExists) {
		s.Fatal(err)
	}
	a := app.App{
		Name: name, Project: project, Environment: "prod", Namespace: project + "-prod", Host: host,
		Port: 8080, Image: "registry.example/hello:v1", Revision: 1, Gate: app.Gate{State: app.Ungated, Since: time.Now()},
	}
	if err := s.store.CreateApp(s.Context(), a, storetest.First(a)); err != nil {
		s.Fatal(err)
	}
	return a.Ref()
}

// serveChecker answers checks with the certificate that wiring has made.
func (s *site) serveChecker() {
	s.Helper()
	secret, err := s.cluster.Secret(s.Context(), s.cfg.SystemNamespace, s.cfg.CheckerSecret)
	if err != nil {
		s.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[certEntry], secret.Data[keyEntry])
	if err != nil {
		s.Fatal(err)
	}
	key, err := checkers.DeriveProofKey(secret.Data[keyEntry])
	if err != nil {
		s.Fatal(err)
	}
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
		httpapi.Fail(w, s.verdict.Load())
	}))
	if err := server.Listener.Close(); err != nil {
		s.Fatal(err)
	}
	server.Listener = s.listen(s.checker)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	s.Cleanup(server.Close)
}

// serveApp is the app's pods: an API server gives its Service a loopback address.
func (s *site) serveApp() {
	s.Helper()
	service, err := s.kube.CoreV1().Services(s.ref.Namespace).Get(s.Context(), s.ref.Name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	l := s.listen(net.JoinHostPort(service.Spec.ClusterIP, "8080"))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.copies.Load() && r.URL.Path == ProbePath {
			httpapi.Fail(w, problem.Of(problem.InvalidKey))
			return
		}
		_ = json.NewEncoder(w).Encode(r.Header)
	}))
	if err := server.Listener.Close(); err != nil {
		s.Fatal(err)
	}
	server.Listener = l
	server.Start()
	s.Cleanup(server.Close)
}

// ready has everything in place: the app ungated, its pods and the checker serving.
func (s *site) ready() {
	s.Helper()
	s.tick()
	s.serveApp()
	s.serveChecker()
	s.within(func() string {
		if status, _ := s.request(nil); status != http.StatusOK {
			return "the app answers " + strconv.Itoa(status)
		}
		return ""
	})
}

func (s *site) app() app.App {
	s.Helper()
	a, err := s.store.App(s.Context(), s.ref.Namespace, s.ref.Name)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// wantGate holds the app's gate against what is expected.
func (s *site) wantGate(state app.GateState, message string) {
	s.Helper()
	if got := s.app().Gate; got.State != state || got.Message != message {
		s.Fatalf("gate is %s %q, want %s %q", got.State, got.Message, state, message)
	}
}

// settles ticks until the gate is as it shall be: on a busy machine the ingress may not
// know the route yet when it is first asked.
func (s *site) settles(state app.GateState, message string) {
	s.Helper()
	s.within(func() string {
		s.tick()
		if got := s.app().Gate; got.State != state || got.Message != message {
			return fmt.Sprintf("gate is %s %q, want %s %q", got.State, got.Message, state, message)
		}
		return ""
	})
}

// turn sets Require API key, as the apps function does.
func (s *site) turn(on bool) {
	s.Helper()
	_, err := s.store.UpdateApp(s.Context(), s.ref, func(a app.App) (app.App, error) {
		a.RequireAPIKey = on
		a.Gate = a.Gate.Switch(on, time.Now())
		return a, nil
	})
	if err != nil {
		s.Fatal(err)
	}
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
	if err := s.service.Receive(s.Context(), event(funcmain.PingType, "")); err != nil {
		s.Fatal(err)
	}
}

func (s *site) requested() {
	s.Helper()
	if err := s.service.Receive(s.Context(), event(app.GateRequested, s.ref.String())); err != nil {
		s.Fatal(err)
	}
}

// request asks the app's public URL and gives the status and what the app got.
func (s *site) request(headers map[string]string) (int, http.Header) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.cfg.IngressURL+"/x", http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	req.Host = s.host
	for name, value := range headers {
		req.Header[name] = []string{value}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got http.Header
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			s.Fatal(err)
		}
	}
	return resp.StatusCode, got
}

// within waits until wrong is "".
func (s *site) within(wrong func() string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		what := wrong()
		if what == "" {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			s.Fatal(what)
		}
	}
}

func (s *site) state() cluster.State {
	s.Helper()
	seen, err := s.cluster.Objects(s.Context(), s.ref)
	if err != nil {
		s.Fatal(err)
	}
	ca, err := s.service.certify(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return s.cluster.State(seen, s.app(), ca)
}

// patch changes an object of Traefik's from outside.
func (s *site) patch(resource, name, patch string) {
	s.Helper()
	kind := schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: resource}
	_, err := s.dynamic.Resource(kind).Namespace(s.ref.Namespace).Patch(s.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	if err != nil {
		s.Fatal(err)
	}
}

func pool(t *testing.T, ca []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(ca) {
		t.Fatal("no CA")
	}
	return p
}
