package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/tests/check"
)

type received struct {
	header http.Header
	body   map[string]any
	event  cloudevents.Event
}

type recorder struct {
	address string // host:port

	mu     sync.Mutex
	events []received
}

func listen(address string) (*recorder, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	r := &recorder{address: l.Addr().String()}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // until the process ends
	return r, nil
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(req.Body)
	one := received{header: req.Header.Clone()}
	if err == nil {
		err = json.Unmarshal(text, &one.body)
	}
	req.Body = io.NopCloser(bytes.NewReader(text))
	event, failed := cloudevents.NewEventFromHTTPRequest(req)
	if err != nil || failed != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	one.event = *event
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, one)
	w.WriteHeader(http.StatusAccepted)
}

// eventsFor returns the events about a run or TaskRun in order of arrival.
func (r *recorder) eventsFor(namespace, name string) []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e received) bool {
		return e.event.Subject() != name || !strings.Contains(e.event.Source(), "/namespaces/"+namespace+"/")
	})
}

// sink returns the recorder of the events of all later runs.
func sink(t *testing.T, r *runtime) *recorder {
	t.Helper()
	if stackFile() == "" {
		return emulated.sink
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfigOf(t))
	check.OK(t, err)
	// The pods reach this machine at the address that it uses to reach the cluster.
	towards, err := (&net.Dialer{}).DialContext(t.Context(), "udp", strings.TrimPrefix(config.Host, "https://"))
	check.OK(t, err)
	host, _, err := net.SplitHostPort(towards.LocalAddr().String())
	check.OK(t, err)
	check.OK(t, towards.Close())
	sink, err := listen(net.JoinHostPort(host, "0"))
	check.OK(t, err)
	configMaps := r.kube.CoreV1().ConfigMaps("tekton-pipelines")
	before, err := configMaps.Get(t.Context(), "config-events", meta.GetOptions{})
	check.OK(t, err)
	set := func(ctx context.Context, data map[string]any) {
		patch, err := json.Marshal(map[string]any{"data": data})
		check.OK(t, err)
		if _, err := configMaps.Patch(ctx, "config-events", types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	was := map[string]any{"sink": nil, "formats": nil}
	for key := range was {
		if text, ok := before.Data[key]; ok {
			was[key] = text
		}
	}
	t.Cleanup(func() { set(context.Background(), was) })
	set(t.Context(), map[string]any{"sink": "http://" + sink.address, "formats": "tektonv1"})
	return sink
}
