package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/emulators/workloads"
	"github.com/sluicegate/sluice/tests/check"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	link := netip.MustParsePrefix(hostIP + linkBits).Masked()
	pods, clusterIPs := netip.MustParsePrefix(podRange), netip.MustParsePrefix(services)
	if link.Overlaps(pods) || link.Overlaps(clusterIPs) || pods.Overlaps(clusterIPs) {
		t.Error("ranges overlap")
	}
	for address, in := range map[string]netip.Prefix{nodeIP: link, apiIP: clusterIPs, dnsIP: clusterIPs} {
		if !in.Contains(netip.MustParseAddr(address)) {
			t.Errorf("%s is not in %s", address, in)
		}
	}
	text, err := own.ReadFile("manifests/dns.yaml")
	if err != nil || !strings.Contains(string(text), "clusterIP: "+dnsIP) {
		t.Errorf("DNS service: want address %s, got error %v", dnsIP, err)
	}
	text, err = own.ReadFile("manifests/traefik.yaml")
	if err != nil || !strings.Contains(string(text), "externalIPs: ["+nodeIP+"]") {
		t.Errorf("ingress: want address %s, got error %v", nodeIP, err)
	}
}

func TestPKI(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir()}
	for _, dir := range []string{o.pki(""), o.etc("")} {
		check.OK(t, os.MkdirAll(dir, 0o700))
	}
	check.OK(t, o.writePKI(time.Now()))
	check.OK(t, o.writeKubernetes())
	check.OK(t, o.writeContainerd())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig())
	check.OK(t, err)
	if host, _, err := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://")); err != nil || host != nodeIP {
		t.Errorf("got API server %s, %v, want host %s", config.Host, err, nodeIP)
	}
	if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
		t.Error(err)
	}
	pair, err := tls.LoadX509KeyPair(o.pki("apiserver.crt"), o.pki("apiserver.key"))
	check.OK(t, err)
	for _, name := range []string{nodeIP, apiIP, "kubernetes.default.svc"} {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.etc("certs.d"), exampleRegistry, "hosts.toml")); err != nil {
		t.Error(err)
	}
}

const manifests = `apiVersion: apps/v1
kind: Deployment
metadata: {name: queue}
spec: {template: {spec: {containers: [{name: queue, image: ko://example.test/cmd/queue, resources: {requests: {cpu: 300m, memory: 1Mi}}}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: queue}
---
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Certificate
metadata: {name: late}
---
apiVersion: v1
kind: Namespace
metadata: {name: queue}
`

func TestFit(t *testing.T) {
	t.Parallel()
	if _, err := withImages(manifests, nil); err == nil {
		t.Error("unknown image: got no error, want one")
	}
	text, err := withImages(manifests, map[string]string{"example.test/cmd/queue": "built/queue@sha256:1"})
	check.OK(t, err)
	all, err := manifest.Decode([]byte(text))
	check.OK(t, err)
	namespaces, definitions, rest, late := stages(fit(all, map[string]map[string]string{"settings": {"a": "b"}}))
	if len(namespaces) != 1 || len(definitions) != 0 || len(rest) != 2 || len(late) != 1 {
		t.Fatalf("got %d namespaces, %d definitions, %d rest, %d late, want 1, 0, 2, 1", len(namespaces), len(definitions), len(rest), len(late))
	}
	containers, _, err := unstructured.NestedSlice(rest[0].Object, "spec", "template", "spec", "containers")
	check.OK(t, err)
	want := []any{object{
		"name": "queue", "image": "built/queue@sha256:1",
		"resources": object{"requests": object{"cpu": "5m", "memory": "1Mi"}},
	}}
	check.Equal(t, "containers", want, containers)
	if got, _, err := unstructured.NestedString(rest[1].Object, "data", "a"); got != "b" || err != nil {
		t.Errorf("got setting %q, %v, want \"b\"", got, err)
	}
}

func TestPodProblem(t *testing.T) {
	t.Parallel()
	waiting := core.ContainerStatus{Name: "app", State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}
	running := core.ContainerStatus{Name: "app", Ready: true, State: core.ContainerState{Running: &core.ContainerStateRunning{}}}
	for want, status := range map[string]core.PodStatus{
		"app is waiting: ImagePullBackOff not found": {ContainerStatuses: []core.ContainerStatus{waiting}},
		"":                       {ContainerStatuses: []core.ContainerStatus{running}},
		"not scheduled: no room": {Conditions: []core.PodCondition{{Type: core.PodScheduled, Status: core.ConditionFalse, Message: "no room"}}},
	} {
		if got := podProblem(core.Pod{Status: status}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	pod := core.Pod{
		ObjectMeta: meta.ObjectMeta{
			Namespace: "shop-prod", Annotations: map[string]string{"sluice.dev/revision": "7"},
			OwnerReferences: []meta.OwnerReference{{Kind: "ReplicaSet", Name: "hello-world-5d8f"}},
		},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "queue-proxy", Image: "q"}, {Name: "app", Image: "registry.example/hello:v1"}}},
	}
	want := workloads.Pod{App: "hello-world", Namespace: "shop-prod", Image: "registry.example/hello:v1", Revision: "7"}
	if got := identify(pod); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	pod.Labels = map[string]string{"serving.knative.dev/service": "hello"}
	if got := identify(pod); got.App != "hello" {
		t.Errorf("got app %q, want \"hello\"", got.App)
	}
}

func TestSourceTag(t *testing.T) {
	t.Parallel()
	tag := func(text string) string {
		files := fstest.MapFS{"scripts/release/main.go": {}, "shared/a.go": {Data: []byte(text)}, "functions/a_test.go": {Data: []byte(text)}, "go.mod": {}, "go.sum": {}}
		files[rand.Text()+"/x.go"] = &fstest.MapFile{} // not built
		files["functions/"+rand.Text()+"_test.go"] = &fstest.MapFile{}
		got, err := sourceTag(files)
		check.OK(t, err)
		return got
	}
	first, second, other := tag("a"), tag("a"), tag("b")
	if first != second || first == other {
		t.Errorf("got tags %s and %s for the same sources, %s for others", first, second, other)
	}
}
