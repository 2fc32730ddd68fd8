package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/ingress"
	"github.com/sluicegate/sluice/emulators/internal/ports"
	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

const (
	root    = "../.."
	timeout = 20 * time.Second
)

// route routes a host to a web server of the test, on a Service's cluster IP.
const route = `
apiVersion: v1
kind: Service
metadata: {name: hello, namespace: default}
spec: {clusterIP: %s, ports: [{port: %s}]}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: hello, namespace: default}
spec:
  entryPoints: [web]
  routes:
    - kind: Rule
      match: Host(` + "`hello.localhost`" + `)
      services: [{name: hello, port: %s, nativeLB: true}]
`

func start(t *testing.T) (*ingress.Server, *rest.Config, kube.Options) {
	t.Helper()
	free, err := ports.Free(t.Context(), 1)
	check.OK(t, err)
	options := kube.Options{Root: root, Port: free[0]}
	api, config := clustertest.Start(t, options)
	client, err := dynamic.NewForConfig(config)
	check.OK(t, err)
	check.OK(t, crds.Define(t.Context(), root, client, crds.Traefik()))
	s, err := ingress.Start(t.Context(), ingress.Options{
		Root: root, LogDir: t.TempDir(), Kubeconfig: api.Kubeconfig, Progress: t.Output(),
	})
	check.OK(t, err)
	check.Closes(t, s)
	return s, config, options
}

// backend returns X-Forwarded-For, which a client must not be able to forge.
func backend(t *testing.T, ip string) (port string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	}))
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0"))
	check.OK(t, err)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s.URL[strings.LastIndex(s.URL, ":")+1:]
}

func TestTraefikRoutesToAClusterIP(t *testing.T) {
	t.Parallel()
	s, config, options := start(t)
	prefix := kube.ServiceRange(options.Port).Addr().As4()
	prefix[2], prefix[3] = 200, 7
	ip := fmt.Sprintf("%d.%d.%d.%d", prefix[0], prefix[1], prefix[2], prefix[3])
	port := backend(t, ip)
	objects, err := manifest.Decode(fmt.Appendf(nil, route, ip, port, port))
	check.OK(t, err)
	applier, err := manifest.NewApplier(config)
	check.OK(t, err)
	check.OK(t, applier.Apply(t.Context(), objects))
	response := eventually(t, s)
	if response != "127.0.0.1" {
		t.Errorf("client address at the app: got %q, want 127.0.0.1", response)
	}
	checkLog(t, s)
}

// checkLog waits for the request in the access log, which must not contain request headers.
func checkLog(t *testing.T, s *ingress.Server) {
	t.Helper()
	check.Eventually(t, "log the request", timeout, func() error {
		log, err := os.ReadFile(s.AccessLog)
		if err != nil {
			return err
		}
		if strings.Contains(string(log), "a-key-that-must-not-be-logged") {
			t.Fatal("the access log contains a request header")
		}
		if !strings.Contains(string(log), `"DownstreamStatus":200`) {
			return errors.New("the access log contains no served request")
		}
		return nil
	})
}

func eventually(t *testing.T, s *ingress.Server) (response string) {
	t.Helper()
	check.Eventually(t, "route the request", timeout, func() error {
		status, body, err := ask(t.Context(), s.URL)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		response = body
		return err
	})
	return response
}

func ask(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Host = "hello.localhost"
	req.Header.Set("X-Api-Key", "a-key-that-must-not-be-logged")
	req.Header.Set("X-Forwarded-For", "6.6.6.6")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
