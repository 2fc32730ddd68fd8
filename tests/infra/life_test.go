package infra

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// life is a scenario in one environment that uses all rights of the functions.
type life struct {
	s         *stacktest.Site
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	recreated *interval // when the namespace was deleted and created again
}

type interval struct{ from, made, to time.Time }

// covers reports whether a call was made while the namespace or the rights in it were missing.
// For wiring, the interval ends when the namespace exists again.
func (s *interval) covers(e event) bool {
	to := s.to
	if e.function() == "wiring" {
		to = s.made
	}
	at := e.RequestReceivedTimestamp
	return at.After(s.from) && at.Before(to)
}

func (l life) run(t *testing.T) {
	t.Helper()
	l.hurry(t)
	l.webhooks(t)
	l.builds(t)
	l.scaled(t)
	l.moved(t)
	l.drift(t)
	l.released(t)
	l.s.Gate("hello")
	l.deleted(t, "scaled", "moved")
	l.lostNamespace(t)
	l.deleted(t, "hello", "built")
}

func (l life) deleted(t *testing.T, apps ...string) {
	t.Helper()
	for _, app := range apps {
		_, err := l.s.Client.DeleteApp(t.Context(), l.s.Project, l.s.Env, app)
		check.OK(t, err)
	}
}

// hurry triggers wiring every second.
func (l life) hurry(t *testing.T) {
	t.Helper()
	var ended sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	ended.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := ping(ctx, world.Info().Functions["wiring"], n); err != nil && ctx.Err() == nil {
				t.Logf("ping wiring: %v", err) // the stack's timer continues
			}
		}
	})
}

func ping(ctx context.Context, url string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Type": "dev.knative.sources.ping",
		"Ce-Source": "/tests/infra", "Ce-Id": strconv.Itoa(n),
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (l life) released(t *testing.T) {
	t.Helper()
	_, err := l.s.Client.RequireAPIKey(t.Context(), l.s.Project, l.s.Env, "hello", false)
	check.OK(t, err)
	l.s.WaitGate("hello", "ungated")
}

func (l life) webhooks(t *testing.T) {
	t.Helper()
	l.s.App("hello")
	l.s.Webhook("hello")
	url, token := l.s.Webhook("hello")
	body := []byte(`{"image":"registry.example/echo:v2"}`)
	if a := l.s.Post(url, body, "X-Service-Token", token); a.Status != http.StatusAccepted {
		t.Fatalf("webhook: got %d %s, want 202", a.Status, a.Body)
	}
	l.s.Runs("hello", "registry.example/echo:v2")
	for _, elsewhere := range []string{"nobodys-prod", "kube-system"} { // unknown, and without an environment
		a := l.s.Post(world.Info().BaseURL+"/api/v1/webhook/"+elsewhere+"/hello", body, "X-Service-Token", token)
		if a.Status != http.StatusUnauthorized || a.Code() != "invalid_token" {
			t.Errorf("webhook in %s: got %d %s, want 401 invalid_token", elsewhere, a.Status, a.Body)
		}
	}
	check.OK(t, l.s.Client.DisableWebhook(t.Context(), l.s.Project, l.s.Env, "hello"))
}

// builds deploys a build whose events are lost. It stops wiring, which would otherwise also
// create the Deployment.
func (l life) builds(t *testing.T) {
	t.Helper()
	check.OK(t, world.Signal("wiring", syscall.SIGSTOP))
	defer func() { check.OK(t, world.Signal("wiring", syscall.SIGCONT)) }()
	name := "built"
	source := wire.GitSource{Repository: "https://git.example/emulate-silent/hello.git", Branch: "main"}
	_, err := l.s.Client.CreateApp(t.Context(), l.s.Project, l.s.Env, wire.CreateApp{Name: &name, GitSource: &source})
	check.OK(t, err)
	l.s.Settled("built", 1, "live")
	source.Repository = "https://git.example/emulate-fail/hello.git" // builds looks up the failed step
	_, err = l.s.Client.SetGitSource(t.Context(), l.s.Project, l.s.Env, name, source)
	check.OK(t, err)
	failing, err := l.s.Client.RequestBuild(t.Context(), l.s.Project, l.s.Env, name, "")
	check.OK(t, err)
	l.s.Until("fail", func() bool {
		b, err := l.s.Client.Build(t.Context(), l.s.Project, l.s.Env, name, failing.Build)
		return err == nil && b.Status == "failed"
	})
}

func (l life) drift(t *testing.T) {
	t.Helper()
	l.s.Gate("hello")
	middlewares := schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"}
	gates, err := l.dynamic.Resource(middlewares).Namespace(l.namespace).List(t.Context(), meta.ListOptions{LabelSelector: "sluice.dev/app=hello"})
	check.OK(t, err)
	if len(gates.Items) != 5 {
		t.Fatalf("Middlewares: got %d, want 4 of the gate and 1 of an open route", len(gates.Items))
	}
	gate := &gates.Items[1] // "gate" after "cors"
	check.OK(t, unstructured.SetNestedField(gate.Object, true, "spec", "forwardAuth", "trustForwardHeader"))
	_, err = l.dynamic.Resource(middlewares).Namespace(l.namespace).Update(t.Context(), gate, meta.UpdateOptions{})
	check.OK(t, err)
	l.restored(t, middlewares, gate.GetName(), func(u *unstructured.Unstructured) bool {
		trusts, _, _ := unstructured.NestedBool(u.Object, "spec", "forwardAuth", "trustForwardHeader")
		return !trusts
	})
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	l.spoil(t, l.namespace, "sluice-checker-ca")
	l.spoil(t, system, "sluice-checker-tls")
	for kind, name := range map[schema.GroupVersionResource]string{
		{Group: "apps", Version: "v1", Resource: "deployments"}:               "hello",
		{Version: "v1", Resource: "services"}:                                 "hello",
		{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressroutes"}: "hello",
		middlewares: gate.GetName(),
		secrets:     "sluice-checker-ca",
	} {
		check.OK(t, l.dynamic.Resource(kind).Namespace(l.namespace).Delete(t.Context(), name, meta.DeleteOptions{}))
	}
	for _, kind := range []schema.GroupVersionResource{middlewares, secrets} {
		name := map[bool]string{true: gate.GetName(), false: "sluice-checker-ca"}[kind == middlewares]
		l.restored(t, kind, name, func(*unstructured.Unstructured) bool { return true })
	}
	l.s.WaitGate("hello", "engaged")
}

// spoil changes the CA in a Secret and waits until wiring restores it.
func (l life) spoil(t *testing.T, namespace, name string) {
	t.Helper()
	secret, err := l.client.CoreV1().Secrets(namespace).Get(t.Context(), name, meta.GetOptions{})
	check.OK(t, err)
	right := string(secret.Data["ca.crt"])
	secret.Data["ca.crt"] = []byte(right + "\n")
	_, err = l.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, meta.UpdateOptions{})
	check.OK(t, err)
	l.s.Until("restore the CA in "+name, func() bool {
		now, err := l.client.CoreV1().Secrets(namespace).Get(t.Context(), name, meta.GetOptions{})
		return err == nil && string(now.Data["ca.crt"]) == right
	})
}

func (l life) restored(t *testing.T, kind schema.GroupVersionResource, name string, right func(*unstructured.Unstructured) bool) {
	t.Helper()
	l.s.Until("restore "+name, func() bool {
		u, err := l.dynamic.Resource(kind).Namespace(l.namespace).Get(t.Context(), name, meta.GetOptions{})
		return err == nil && right(u)
	})
}

func (l life) lostNamespace(t *testing.T) {
	t.Helper()
	was, err := l.client.CoreV1().Namespaces().Get(t.Context(), l.namespace, meta.GetOptions{})
	check.OK(t, err)
	l.recreated.from = time.Now()
	check.OK(t, l.client.CoreV1().Namespaces().Delete(t.Context(), l.namespace, meta.DeleteOptions{}))
	l.s.Until("create the namespace again", func() bool {
		is, err := l.client.CoreV1().Namespaces().Get(t.Context(), l.namespace, meta.GetOptions{})
		return err == nil && is.UID != was.UID
	})
	l.recreated.made = time.Now()
	l.s.WaitGate("hello", "engaged")
	l.recreated.to = time.Now()
	key := l.s.AnyKey()
	var last stacktest.Answer
	defer func() {
		if t.Failed() {
			t.Logf("the last response: %d %s", last.Status, last.Body)
		}
	}()
	l.s.Until("serve again", func() bool {
		last = l.s.Call("hello").Key(key).Send()
		return last.Status == http.StatusOK
	})
}
