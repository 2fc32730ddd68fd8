package notify_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/tests/check"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestNotifySendsCloudEvent(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	t.Cleanup(server.Close)
	s := notify.New(server.URL, "/sluice/test", quiet())
	s.Notify(reqctx.Begin(t.Context(), reqctx.Request{ID: "r1", Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}), app.DeployRequested, app.Ref{Namespace: "shop-prod", Name: "hello"})
	check.OK(t, s.Close(t.Context()))
	h := <-got
	want := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Source": "/sluice/test", "Ce-Type": app.DeployRequested, "Ce-Subject": "shop-prod.hello", "Ce-Requestid": "r1",
		"Ce-Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	is := map[string]string{}
	for k := range want {
		is[k] = h.Get(k)
	}
	check.Equal(t, "event", want, is)
	if h.Get("Ce-Id") == "" {
		t.Error("the event has no ID")
	}
}

func TestReceiverThatHangs(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	s := notify.New(server.URL, "/sluice/test", quiet())
	for range 100 {
		s.Notify(t.Context(), app.DeployRequested, app.Ref{Namespace: "shop-prod", Name: "hello"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.OK(t, s.Close(ctx))
}

func TestNobodyToTell(t *testing.T) {
	t.Parallel()
	s := notify.New("", "/sluice/test", quiet())
	s.Notify(t.Context(), app.DeployRequested, app.Ref{Namespace: "shop-prod", Name: "hello"})
	check.OK(t, s.Close(t.Context()))
}
