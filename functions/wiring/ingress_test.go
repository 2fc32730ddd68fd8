package wiring

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		status   int
		body     string
		kind     kind
		engaged  bool
		released bool
	}{
		{"the gate's 401", 401, string(denial.New(problem.InvalidKey).Body()) + "\n", refused, true, false},
		{"the gate's 503", 503, string(denial.New(problem.GateUnavailable).Body()), unavailable, false, false},
		{"the gate's 500", 500, string(denial.New(problem.Misconfigured).Body()), misconfigured, false, false},
		{"a 401 of the app's", 401, `{"code":"invalid_key","message":"no"}`, other, false, true},
		{"the gate's body under another status", 200, string(denial.New(problem.InvalidKey).Body()), other, false, true},
		{"a bare 500", 500, "", silent, false, true},
		{"a 500 of the app's", 500, "oops", other, false, true},
		{"a bare 401", 401, "", other, false, true},
		{"the app", 200, "hello", other, false, true},
		{"not found", 404, "404 page not found\n", unknownHost, false, true},
		{"no backend", 502, "Bad Gateway", other, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := classify(tt.status, []byte(tt.body))
			if got.kind != tt.kind || got.proves(proveEngaged) != tt.engaged || got.proves(proveReleased) != tt.released || got.message() == "" {
				t.Errorf("got %+v, proves engaged %v, released %v", got, got.proves(proveEngaged), got.proves(proveReleased))
			}
		})
	}
	for _, none := range []kind{unreachable, late} {
		if got := (probeResult{kind: none}); got.proves(proveEngaged) || got.proves(proveReleased) || got.message() == "" {
			t.Error("a missing response proves something")
		}
	}
}

func TestAfterFailedProbe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		state  app.GateState
		sought proof
		got    kind
		want   app.GateState
	}{
		{"pending stays", app.Pending, proveEngaged, other, app.Pending},
		{"releasing stays", app.Releasing, proveReleased, refused, app.Releasing},
		{"engaged, the app answers", app.Engaged, proveEngaged, other, app.Pending},
		{"engaged, the host is gone", app.Engaged, proveEngaged, unknownHost, app.Pending},
		{"engaged, a copy of the gate", app.Engaged, proveEngaged, copied, app.Pending},
		{"engaged, a way around it", app.Engaged, proveEngaged, bypassed, app.Pending},
		{"engaged, Knative is at work", app.Engaged, proveEngaged, moving, app.Engaged},
		{"engaged, ways around it unknown", app.Engaged, proveEngaged, unsearched, app.Engaged},
		{"engaged, keys cannot be verified", app.Engaged, proveEngaged, unavailable, app.Engaged},
		{"engaged, no checker", app.Engaged, proveEngaged, silent, app.Engaged},
		{"engaged, no ingress", app.Engaged, proveEngaged, unreachable, app.Engaged},
		{"engaged, checker hangs", app.Engaged, proveEngaged, late, app.Engaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, message := afterFailedProbe(tt.state, tt.sought, probeResult{kind: tt.got}); got != tt.want || message == "" {
				t.Errorf("from %s: got %s %q, want %s", tt.state, got, message, tt.want)
			}
		})
	}
}

func TestEveryIngressAddressIsProbed(t *testing.T) {
	t.Parallel()
	hello, key := app.App{Name: "hello", Namespace: "shop-prod", Host: "hello.example.com"}, checkers.ProofKey{}
	gate := func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "hello.example.com" || r.URL.Path != ProbePath || r.Header.Get("X-Api-Key") != "" {
			t.Errorf("request: got %s%s", r.Host, r.URL.Path)
		}
		w.Header().Set(checkers.ProofHeader, key.SignProof(r.Header.Get(checkers.NonceHeader), "shop-prod/hello"))
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(denial.New(problem.InvalidKey).Body())
	}
	on := func(address string, h http.HandlerFunc, port string) string {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, port))
		check.OK(t, err)
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		_, port, _ = net.SplitHostPort(l.Addr().String())
		return port
	}
	late := true
	port := on("127.0.0.1", gate, "0")
	on("127.0.0.2", func(w http.ResponseWriter, r *http.Request) {
		if !late {
			gate(w, r)
		}
	}, port)
	in, err := newIngress("http://traefik.example:"+port, "")
	check.OK(t, err)
	in.proofKeys = &proofKeys{current: key, known: 1}
	in.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1", "127.0.0.2"}, nil }
	if got := in.probe(t.Context(), probeRequest{App: hello}, proveEngaged); got.proves(proveEngaged) {
		t.Error("one of two replicas proved the gate")
	}
	late = false
	if got := in.probe(t.Context(), probeRequest{App: hello}, proveEngaged); !got.proves(proveEngaged) {
		t.Errorf("both replicas have the gate: got %+v", got)
	}
	if got := in.probe(t.Context(), probeRequest{App: app.App{Name: "other", Namespace: "shop-prod", Host: hello.Host}}, proveEngaged); got.kind != copied {
		t.Errorf("gate of another app: got %+v", got)
	}
	in.port = "1"
	if got := in.probe(t.Context(), probeRequest{App: hello}, proveEngaged); got.kind != unreachable {
		t.Errorf("no replica: got %+v", got)
	}
}

func TestFirstFew(t *testing.T) {
	t.Parallel()
	for want, ways := range map[string][]string{
		"a": {"a"}, "a, b, c": {"a", "b", "c"}, "a, b, c, and 2 more": {"a", "b", "c", "d", "e"},
	} {
		if got := firstFew(ways); got != want {
			t.Errorf("%q: got %q", ways, got)
		}
	}
}
