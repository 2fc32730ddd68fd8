package proxies

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/crds"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const gatewayPort = 22184

const gatewayOf = `
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: traefik}, spec: {controllerName: traefik.io/gateway-controller}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: apps, namespace: %[1]s}, spec: {gatewayClassName: traefik, listeners: [
  {name: websecure, protocol: HTTPS, port: %[2]d, tls: {certificateRefs: [{name: site}]}}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: site, namespace: %[1]s}, type: kubernetes.io/tls, data: {tls.crt: %[3]s, tls.key: %[4]s}}
`

// TestGatewayContract uses an HTTPRoute of package cluster and wiring's Middlewares.
func TestGatewayContract(t *testing.T) {
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	s.App("other")
	ready := s.AnyKey()
	s.Opens("hello", ready)
	dir := t.TempDir()
	pool := certify(t, dir)
	makeGateway(t, s, dir)
	p := proxy{name: "traefik", port: gatewayPort, trailers: true}
	program, args := stackTraefik(t, p.port)
	g := p.run(t, s, dir, pool, http.StatusUnauthorized, program, append(args,
		"--providers.kubernetescrd", "--providers.kubernetesgateway", "--providers.kubernetesgateway.nativelbbydefault")...)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) { g.contract(t, protocol) })
	}
	t.Run("web sockets", g.webSockets)
	t.Run("upgrades", g.upgrades)
	t.Run("nominated headers", g.nominated)
}

func makeGateway(t *testing.T, s *stacktest.Site, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", world.Info().Kubeconfig)
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	must(crds.Define(t.Context(), filepath.Join("..", ".."), client, crds.Gateway()))
	namespace := s.Project + "-" + s.Env
	list, err := manifest.Decode(fmt.Appendf(nil, gatewayOf, namespace, gatewayPort, encoded(t, dir, "site.crt"), encoded(t, dir, "site.key")))
	must(err)
	applier, err := manifest.NewApplier(config)
	must(err)
	must(applier.Apply(t.Context(), list))

	_, backend, err := net.SplitHostPort(backendOf(t, s, "hello"))
	must(err)
	port, err := strconv.Atoi(backend)
	must(err)
	c, err := cluster.Open(cluster.Options{
		Kubeconfig: world.Info().Kubeconfig, CheckerURL: world.Info().CheckerURL,
		Routes: &cluster.Routes{Kind: cluster.GatewayTraefikRoutes, Gateway: namespace + "/apps/websecure"},
	})
	must(err)
	a := app.App{Name: "hello", Namespace: namespace, Host: host, Port: port}
	o, err := c.Objects(t.Context(), a.Ref())
	must(err)
	must(c.ApplyRoute(t.Context(), o, a, true))
}

func encoded(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	check.OK(t, err)
	return base64.StdEncoding.EncodeToString(text)
}
