package tests

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/span/spantest"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestDenialLookup looks up denials by request ID on the checkers' private ports and in the logs.
func TestDenialLookup(t *testing.T) {
	stacktest.Insides(t, "it reads all logs")
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Revoke(k)
	s.Refuses("hello", k)
	id := "denial-" + s.Project
	for _, tt := range []struct {
		reason string
		call   *stacktest.Call
	}{
		{"unknown", s.Call("hello").Key(k)},
		{"missing", s.Call("hello")},
		{"malformed", s.Call("hello").Header("X-API-Key", "garbage")},
	} {
		requestID := id + "-" + tt.reason
		a := tt.call.Header("X-Request-Id", requestID).Gets(http.StatusUnauthorized, "invalid_key")
		if got := a.Header.Get("X-Request-Id"); got != requestID {
			t.Errorf("%s: request ID: want %q, got %q", tt.reason, requestID, got)
		}
		if got := denialReasons(t, requestID); fmt.Sprint(got) != "["+tt.reason+"]" {
			t.Errorf("reasons: got %v, want [%s]", got, tt.reason)
		}
		waitForLog(s, "checker-", `"request_id":"`+requestID+`"`, `"reason":"`+tt.reason+`"`)
		waitForLog(s, "traefik-access", requestID)
	}
	if a := s.Call("hello").Header("X-Request-Id", "no good\tid").Gets(http.StatusUnauthorized); len(a.Header.Get("X-Request-Id")) != 26 {
		t.Errorf("invalid request ID: got %q, want a new one of 26 characters", a.Header.Get("X-Request-Id"))
	}
}

func denialReasons(t *testing.T, id string) []string {
	t.Helper()
	var reasons []string
	for _, metrics := range world.Info().CheckerMetrics {
		body := []byte(stacktest.Get(t, strings.TrimSuffix(metrics, "/metrics")+"/denials?request_id="+url.QueryEscape(id)).Body)
		var list struct {
			Items []struct {
				Reason string `json:"reason"`
			} `json:"items"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, d := range list.Items {
			reasons = append(reasons, d.Reason)
		}
	}
	return reasons
}

// waitForLog waits until a log with the name prefix has a line that contains all parts.
func waitForLog(s *stacktest.Site, prefix string, parts ...string) {
	s.T.Helper()
	s.Until("log "+strings.Join(parts, " and "), func() bool {
		files, err := filepath.Glob(filepath.Join(world.Info().LogsDir, prefix+"*"))
		if err != nil || len(files) == 0 {
			s.T.Fatalf("logs %s*: got %v, %v, want at least one", prefix, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			check.OK(s.T, err)
			for line := range strings.Lines(string(text)) {
				if containsAll(line, parts) {
					return true
				}
			}
		}
		return false
	})
}

func containsAll(line string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(line, p) {
			return false
		}
	}
	return true
}

// TestRequestIDIsPropagated checks that functions pass the request ID and the trace to each other.
func TestRequestIDIsPropagated(t *testing.T) {
	stacktest.Insides(t, "it reads all logs")
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	path := "/api/v1/projects/" + s.Project + "/environments/prod/apps/hello"
	url, token := s.Webhook("hello")
	deploy, gate := "deploy-"+s.Project, "gate-"+s.Project
	trace := rand.Text()
	trace = hex.EncodeToString([]byte(trace[:16]))
	parent := "00-" + trace + "-00f067aa0ba902b7-01"
	if a := s.Post(url, deployBody("v2"), "X-Service-Token", token, "X-Request-Id", deploy, "traceparent", parent); a.Status != http.StatusAccepted || a.Header.Get("X-Request-Id") != deploy {
		t.Fatalf("webhook: got %d %s %v, want 202 with request ID %s", a.Status, a.Body, a.Header, deploy)
	}
	waitForLog(s, "webhook", `"request_id":"`+deploy+`"`, `"msg":"webhook called"`)
	waitForLog(s, "deploys", `"request_id":"`+deploy+`"`, `"msg":"deployment finished"`, `"trace_id":"`+trace+`"`)

	session, err := s.Client.SignIn(t.Context(), world.Info().Admin.Username, world.Info().Admin.Password)
	check.OK(t, err)
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPatch, world.Info().BaseURL+path, strings.NewReader(`{"require_api_key":true}`))
	check.OK(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + string(session.Token)}, "X-Request-Id": {gate}, "Traceparent": {parent}}
	res, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	var a wire.App
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil || a.Gate.State != "pending" {
		t.Fatalf("got %d, %+v, %v, want a pending gate", res.StatusCode, a, err)
	}
	waitForLog(s, "apps", `"request_id":"`+gate+`"`, `"msg":"request"`)
	waitForLog(s, "wiring", `"request_id":"`+gate+`"`, `"msg":"gate state changed"`, `"trace_id":"`+trace+`"`)
}

// TestSpansOfADeployment checks that the spans of a deployment belong to the pipeline's trace and
// contain no request data.
func TestSpansOfADeployment(t *testing.T) {
	stacktest.Insides(t, "the functions export their spans to it")
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	// A reconciliation may be started by a timer or a change of the pods instead, outside the
	// trace. The test then deploys again.
	id, recorded := "", false
	reconciled := func(got spantest.Span, name string) bool {
		return got.Trace == id && got.Service == "sluice-deploys" && got.Name == name &&
			slices.ContainsFunc(collector.Spans(), func(pass spantest.Span) bool { return pass.ID == got.Parent && pass.Name == "reconcile" })
	}
	for try := 0; try < 5 && !recorded; try++ {
		id = hex.EncodeToString([]byte(rand.Text()[:16]))
		body := deployBody(fmt.Sprintf("planted-%d", try))
		if a := s.Post(url, body, "X-Service-Token", token, "X-Api-Key", "planted", "traceparent", "00-"+id+"-00f067aa0ba902b7-01"); a.Status != http.StatusAccepted {
			t.Fatalf("webhook: got %d %s, want 202", a.Status, a.Body)
		}
		recorded = true
		for _, name := range []string{"kubernetes PATCH", "store commit"} {
			_, found := collector.Within(20*time.Second, func(got spantest.Span) bool { return reconciled(got, name) })
			recorded = recorded && found
		}
	}
	first := func(service, name, parent string) spantest.Span {
		return collector.Until(t, service+" "+name, func(got spantest.Span) bool {
			return got.Trace == id && got.Service == "sluice-"+service && got.Name == name && (parent == "" || got.Parent == parent)
		})
	}
	call := first("webhook", "POST /api/v1/webhook/{namespace}/{app}", "00f067aa0ba902b7")
	first("webhook", "store commit", call.ID)
	notified := first("webhook", "notify "+app.DeployRequested, call.ID)
	event := first("deploys", "POST event", notified.ID)
	work := first("deploys", "reconcile", event.ID)
	if !recorded {
		t.Error("want reconciliations in one of the traces that patch the workload and commit the result, got none")
	}
	if work.Values["sluice.namespace"] != s.Project+"-prod" || work.Values["sluice.app"] != "hello" || call.Values["http.response.status_code"] != "Accepted" {
		t.Errorf("got call %+v, work %+v; want status Accepted and the namespace and app", call, work)
	}
	for _, secret := range []string{token, "planted", world.Info().Admin.Password} {
		if collector.Holds(secret) {
			t.Errorf("a span contains %q", secret)
		}
	}
}

func TestMetricsOfEveryFunction(t *testing.T) {
	stacktest.Insides(t, "a cluster scales functions to zero")
	t.Parallel()
	s := stacktest.New(t, world)
	if n := len(world.Info().Metrics); n < 11 {
		t.Fatalf("processes with metrics: got %d, want at least 11", n)
	}
	for name, url := range world.Info().Metrics {
		text := stacktest.Get(t, url).Body
		function, _, _ := strings.Cut(name, "-")
		wants := []string{`sluice_build_info{function="` + function + `"`, "go_goroutines", "process_open_fds"}
		if function == "checker" {
			wants = append(wants, "sluice_checker_fresh", `sluice_checker_denials_total{reason="unknown"}`)
		} else {
			wants = append(wants, "sluice_http_request_duration_seconds_bucket")
		}
		wants = append(wants, functionMetrics()[function]...)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the metrics of %s lack %s", name, want)
			}
		}
	}
	before := strings.Count(stacktest.Get(t, world.Info().Metrics["apps"]).Body, "\n")
	for i := range 200 {
		req, err := http.NewRequestWithContext(t.Context(), fmt.Sprintf("M%d", i), fmt.Sprintf("%s/api/v1/projects/x%d/y%d", world.Info().BaseURL, i, i), nil)
		check.OK(t, err)
		res, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		_ = res.Body.Close()
	}
	text := stacktest.Get(t, world.Info().Metrics["apps"]).Body
	if after := strings.Count(text, "\n"); after > before+100 { // other tests add series of new routes
		t.Errorf("lines of metrics: got %d, want at most 100 more than %d", after, before)
	}
	if strings.Contains(text, "/y1") || strings.Contains(text, `"M1"`) || strings.Contains(text, s.Project) {
		t.Error("the metrics contain data of a client")
	}
}

func functionMetrics() map[string][]string {
	return map[string][]string{
		"session": {`sluice_sign_ins_total{outcome="succeeded"}`, `sluice_store_operations_total{op="commit",outcome="OK"}`},
		"webhook": {`sluice_webhook_calls_total{outcome="deployed"}`},
		"keys":    {`sluice_leaked_secrets_total{by="program",result="ended"}`},
		"deploys": {"sluice_deploys_unsettled", `sluice_events_sent_total{outcome="delivered"}`},
		"builds":  {"sluice_builds_running"},
		"rollup":  {"sluice_rollup_settled_day_timestamp_seconds"},
		"wiring":  {`sluice_wiring_gates{state="engaged"}`, "sluice_wiring_certificate_expires_timestamp_seconds"},
	}
}
