package kube_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/kube"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s, config := clustertest.Start(t, kube.Options{})
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	t.Run("a Service gets a loopback address", func(t *testing.T) { clusterIP(t, client) })
	t.Run("a Secret is encrypted at rest", func(t *testing.T) { encrypted(t, client, s.EtcdURL) })
	t.Run("unauthenticated clients are rejected", func(t *testing.T) { unauthenticated(t, s) })
	t.Run("the server can be restarted", func(t *testing.T) { restart(t, client, s) })
}

func clusterIP(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "hello"},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Port: 8080}}},
	}
	got, err := client.CoreV1().Services("default").Create(t.Context(), service, meta.CreateOptions{})
	check.OK(t, err)
	ip, err := netip.ParseAddr(got.Spec.ClusterIP)
	if err != nil || !ip.IsLoopback() {
		t.Errorf("got cluster IP %q, %v, want a loopback address", got.Spec.ClusterIP, err)
	}
}

func encrypted(t *testing.T, client kubernetes.Interface, etcd string) {
	t.Helper()
	const text = "a-secret-that-must-not-be-readable"
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"token": text}}
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stored := read(t, etcd, "/registry/secrets/default/hidden")
	if len(stored) == 0 || bytes.Contains(stored, []byte(text)) {
		t.Errorf("got %q in etcd, want an encrypted value", stored)
	}
	if !bytes.HasPrefix(stored, []byte("k8s:enc:secretbox:v1:local:")) {
		t.Errorf("got %.40q… in etcd, want a value encrypted with secretbox", stored)
	}
}

// read reads from etcd through its JSON gateway.
func read(t *testing.T, etcd, key string) []byte {
	t.Helper()
	body := fmt.Sprintf(`{"key":%q}`, base64.StdEncoding.EncodeToString([]byte(key)))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, etcd+"/v3/kv/range", strings.NewReader(body))
	check.OK(t, err)
	resp, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	defer resp.Body.Close()
	var response struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	check.OK(t, json.NewDecoder(resp.Body).Decode(&response))
	if len(response.KVs) != 1 {
		t.Fatalf("got %d values of %s in etcd, want 1", len(response.KVs), key)
	}
	return response.KVs[0].Value
}

func unauthenticated(t *testing.T, s *kube.Server) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	check.OK(t, err)
	client, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(config))
	check.OK(t, err)
	if list, err := client.CoreV1().Secrets("").List(t.Context(), meta.ListOptions{}); err == nil {
		t.Errorf("got %d secrets without authentication, want an error", len(list.Items))
	}
}

func restart(t *testing.T, client kubernetes.Interface, s *kube.Server) {
	t.Helper()
	before := names(t.Context(), t, client)
	check.OK(t, s.API.Kill())
	check.OK(t, s.API.Restart(t.Context()))
	if diff := cmp.Diff(before, names(t.Context(), t, client)); diff != "" {
		t.Errorf("services before and after (-before +after):\n%s", diff)
	}
}

// names returns the names of Services, except "kubernetes", which the API server creates after
// its start.
func names(ctx context.Context, t *testing.T, client kubernetes.Interface) []string {
	t.Helper()
	list, err := client.CoreV1().Services("").List(ctx, meta.ListOptions{FieldSelector: "metadata.name!=kubernetes"})
	check.OK(t, err)
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name+" "+s.Spec.ClusterIP)
	}
	return names
}

func TestServiceRange(t *testing.T) {
	t.Parallel()
	seen := map[netip.Prefix]int{}
	for port := 8082; port < 8082+2500; port += 10 {
		r := kube.ServiceRange(port)
		if other, ok := seen[r]; ok {
			t.Fatalf("ports %d and %d: got the same range %v", other, port, r)
		}
		seen[r] = port
		if b := r.Addr().As4(); b[0] != 127 || b[1] < 2 || b[1] == 255 || r.Bits() != 16 {
			t.Fatalf("port %d: got range %v", port, r)
		}
	}
}
