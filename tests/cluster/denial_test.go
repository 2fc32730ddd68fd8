package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestDenialIsExplained(t *testing.T) {
	row := seen.Test(t, "query each checker's private port by port forwarding", "metrics from each; the reason of a denial, by request ID, from the checker that denied it")
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	a := s.Call("hello").Header("X-API-Key", "sluice_unknown").Gets(http.StatusUnauthorized, "invalid_key")
	id := a.Header.Get("X-Request-Id")
	if id == "" {
		t.Fatal("got a denial without a request ID")
	}
	found := 0
	for _, pod := range checkers(t) {
		address := forward(t, pod.Name)
		if m := stacktest.Get(t, address+"/metrics"); !strings.Contains(m.Body, "sluice_checker_fresh") {
			t.Errorf("%s: got no metrics, status %d", pod.Name, m.Status)
		}
		if d := stacktest.Get(t, address+"/denials?request_id="+id); d.Status == http.StatusOK && strings.Contains(d.Body, id) {
			found++
			row.Measured(fmt.Sprintf("1 of %d", len(checkers(t))))
		}
	}
	if found != 1 {
		t.Errorf("got the denial from %d checkers, want 1", found)
	}
}

func forward(t *testing.T, pod string) (address string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", world.Info().Kubeconfig)
	check.OK(t, err)
	transport, upgrader, err := spdy.RoundTripperFor(config)
	check.OK(t, err)
	url := stacktest.Kubernetes(t, world).CoreV1().RESTClient().Post().Namespace(manifest.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	var messages bytes.Buffer
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), []string{"0:9090"}, stop, ready, io.Discard, &messages)
	check.OK(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	t.Cleanup(func() { close(stop) })
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("forward to %s: %v %s", pod, err, &messages)
	}
	ports, err := f.GetPorts()
	check.OK(t, err)
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local)
}
