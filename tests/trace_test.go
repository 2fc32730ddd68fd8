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

// TestDenialIsFound: the client sees the same for all reasons; an operator finds the
// reason by the request's id, on the checkers' private ports, in their logs and in the
// proxy's.
func TestDenialIsFound(t *testing.T) {
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
		mine := id + "-" + tt.reason
		a := tt.call.Header("X-Request-Id", mine).Gets(http.StatusUnauthorized, "invalid_key")
		if got := a.Header.Get("X-Request-Id"); got != mine {
			t.Errorf("%s: the id %s came back as %q", tt.reason, mine, got)
		}
		if got := reasonsOf(t, mine); fmt.Sprint(got) != "["+tt.reason+"]" {
			t.Errorf("%s is found as %v", tt.reason, got)
		}
		inLog(s, "checker-", `"request_id":"`+mine+`"`, `"reason":"`+tt.reason+`"`)
		inLog(s, "traefik-access", mine)
	}
	if a := s.Call("hello").Header("X-Request-Id", "no good\tid").Gets(http.StatusUnauthorized); len(a.Header.Get("X-Request-Id")) != 26 {
		t.Errorf("an id that is no good came back as %q", a.Header.Get("X-Request-Id"))
	}
}

// reasonsOf asks both checkers for the denials of a request.
func reasonsOf(t *testing.T, id string) []string {
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

// inLog waits until a line with all parts is in a log whose name begins so.
func inLog(s *stacktest.Site, prefix string, parts ...string) {
	s.T.Helper()
	s.Until("log "+strings.Join(parts, " and "), func() bool {
		files, err := filepath.Glob(filepath.Join(world.Info().LogsDir, prefix+"*"))
		if err != nil || len(files) == 0 {
			s.T.Fatalf("logs %s: %v, %v", prefix, files, err)
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

// TestRequestIDGoesOn: what a request asks of other functions is logged there under
// its id.
func TestRequestIDGoesOn(t *testing.T) {
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
		t.Fatalf("webhook: %d %s %v", a.Status, a.Body, a.Header)
	}
	inLog(s, "webhook", `"request_id":"`+deploy+`"`, `"msg":"webhook called"`)
	inLog(s, "deploys", `"request_id":"`+deploy+`"`, `"msg":"deployment finished"`, `"trace_id":"`+trace+`"`)

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
		t.Fatalf("%d, %+v, %v", res.StatusCode, a, err)
	}
	inLog(s, "apps", `"request_id":"`+gate+`"`, `"msg":"request"`)
	inLog(s, "wiring", `"request_id":"`+gate+`"`, `"msg":"gate state changed"`, `"trace_id":"`+trace+`"`)
}

// TestSpansOfADeployment: a pipeline's call, what the webhook does, what it tells deploys
// and what that does to the store and the cluster are spans of the pipeline's trace, and
// none holds what is secret or was sent.
func TestSpansOfADeployment(t *testing.T) {
	stacktest.Insides(t, "it has the functions export to it")
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	// A change of the pods can start the pass that records the result; that pass is in no
	// trace of the deployment. Another deployment then shows it.
	id, recorded := "", false
	for try := 0; try < 5 && !recorded; try++ {
		id = hex.EncodeToString([]byte(rand.Text()[:16]))
		body := deployBody(fmt.Sprintf("planted-%d", try))
		if a := s.Post(url, body, "X-Service-Token", token, "X-Api-Key", "planted", "traceparent", "00-"+id+"-00f067aa0ba902b7-01"); a.Status != http.StatusAccepted {
			t.Fatalf("webhook: %d %s", a.Status, a.Body)
		}
		_, recorded = collector.Within(20*time.Second, func(got spantest.Span) bool {
			return got.Trace == id && got.Service == "sluice-deploys" && got.Name == "store commit" &&
				slices.ContainsFunc(collector.Spans(), func(pass spantest.Span) bool {
					return pass.ID == got.Parent && pass.Name == "reconcile"
				})
		})
	}
	first := func(service, name, parent string) spantest.Span {
		return collector.Until(t, service+" "+name, func(got spantest.Span) bool {
			return got.Trace == id && got.Service == "sluice-"+service && got.Name == name && (parent == "" || got.Parent == parent)
		})
	}
	call := first("webhook", "POST /api/v1/webhook/{namespace}/{app}", "00f067aa0ba902b7")
	first("webhook", "store commit", call.ID)
	told := first("webhook", "notify "+app.DeployRequested, call.ID)
	event := first("deploys", "POST event", told.ID)
	work := first("deploys", "reconcile", event.ID)
	if !recorded {
		t.Error("no pass of deploys in any of the traces has committed the result")
	}
	first("deploys", "kubernetes PATCH", work.ID)
	if work.Values["sluice.namespace"] != s.Project+"-prod" || work.Values["sluice.app"] != "hello" || call.Values["http.response.status_code"] != "Accepted" {
		t.Errorf("the call is %+v, the work %+v", call, work)
	}
	for _, secret := range []string{token, "planted", world.Info().Admin.Password} {
		if collector.Holds(secret) {
			t.Errorf("%q was exported", secret)
		}
	}
}

// TestMetricsOfEveryFunction scrapes all of them, and sees that hostile paths and
// methods add no series.
func TestMetricsOfEveryFunction(t *testing.T) {
	stacktest.Insides(t, "a cluster scales functions to zero")
	t.Parallel()
	s := stacktest.New(t, world)
	if n := len(world.Info().Metrics); n < 11 {
		t.Fatalf("metrics of %d processes", n)
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
		wants = append(wants, ownMetrics()[function]...)
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
	if after := strings.Count(text, "\n"); after > before+100 { // other tests make some routes' first calls meanwhile
		t.Errorf("%d lines of metrics became %d", before, after)
	}
	if strings.Contains(text, "/y1") || strings.Contains(text, `"M1"`) || strings.Contains(text, s.Project) {
		t.Error("the metrics hold what a client sent")
	}
}

// ownMetrics are those of single functions.
func ownMetrics() map[string][]string {
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
