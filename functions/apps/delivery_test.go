package apps

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

// TestDeliveries tests that an app's calls are listed since its creation, in pages of at most 50.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	a := o.createApp("hello")
	path := o.apps("/hello/webhook/deliveries")
	check.Equal(t, "before the first call", []wire.WebhookDelivery{}, functest.Read[wire.List[wire.WebhookDelivery]](o.as("vic").get(path), 200).Items)
	at := a.CreatedAt.Add(time.Second)
	receipts := []hook.Receipt{
		{App: a.Ref(), At: a.CreatedAt.Add(-time.Second), Result: hook.Ponged, Count: 1}, // of an earlier app of that name
		{App: app.Ref{Namespace: o.namespace(), Name: "other"}, At: at, Result: hook.Ponged, Count: 1},
		{App: a.Ref(), At: at, Result: hook.Unproven, Count: 12, Last: at.Add(time.Minute), Code: "invalid_token", RequestID: "r2"},
		{
			App: a.Ref(), At: at.Add(time.Second), Result: hook.Deployed, Count: 1, Last: at.Add(time.Second), Event: hook.Push,
			Revision: 2, Commit: "9fceb02", RequestID: "r3", Delivery: "72d3162e",
		},
	}
	for i := range 55 {
		receipts = append(receipts, hook.Receipt{App: a.Ref(), At: at.Add(time.Duration(i+2) * time.Second), Result: hook.Building, Count: 1, Build: int64(i + 1)})
	}
	for i := range receipts {
		receipts[i].ID = store.ReceiptID(receipts[i].At)
	}
	check.OK(t, o.store.KeepReceipts(t.Context(), receipts))
	first := functest.Read[wire.List[wire.WebhookDelivery]](o.as("vic").get(path+"?page_size=50"), 200)
	if len(first.Items) != 50 || first.Items[0].Build != 55 || first.NextPageToken == "" {
		t.Fatalf("first page: got %d, %+v", len(first.Items), first.Items[0])
	}
	if all := functest.Read[wire.List[wire.WebhookDelivery]](o.as("vic").get(path+"?page_size=500"), 200); len(all.Items) != 57 {
		t.Errorf("page of 500: got %d deliveries, want 57", len(all.Items))
	}
	o.as("vic").get(path+"?page_size=501").Refused(400, "invalid_page")
	second := o.as("vic").get(path + "?page_token=" + first.NextPageToken).Is(200)
	want := []wire.WebhookDelivery{
		{
			ID: receipts[3].ID, At: receipts[3].At, LastAt: receipts[3].Last, Count: 1, Result: "deployed", Event: "push",
			Revision: 2, Commit: "9fceb02", RequestID: "r3", Delivery: "72d3162e",
		},
		{ID: receipts[2].ID, At: at, LastAt: receipts[2].Last, Count: 12, Result: "unproven", Code: "invalid_token", RequestID: "r2"},
	}
	check.Equal(t, "the oldest", want, functest.Read[wire.List[wire.WebhookDelivery]](second, second.Status).Items[5:])
	if !strings.Contains(string(second.Body), `"count":12,"result":"unproven","code":"invalid_token","reason":null,"event":null,"revision":null,"build":null,"commit":null,`) {
		t.Errorf("missing fields are not null: %s", second.Body)
	}
}

func TestDeliveriesAreRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	list, test := o.apps("/hello/webhook/deliveries"), o.apps("/hello/webhook/test")
	o.as("eve").get(list).Refused(403, "forbidden")
	o.as("").get(list).Refused(401, "unauthenticated")
	o.as("dev").get(o.apps("/nobody/webhook/deliveries")).Refused(404, "not_found")
	o.as("dev").get(list+"?page_token=x").Refused(400, "invalid_page")
	o.as("dev").get(list+"?page_size=0").Refused(400, "invalid_page")
	for _, name := range []string{"vic", "eve"} {
		o.as(name).post(test, "").Refused(403, "forbidden")
	}
	o.as("").post(test, "").Refused(401, "unauthenticated")
	o.as("dev").post(o.apps("/nobody/webhook/test"), "").Refused(404, "not_found")
	o.as("dev").post(test, `{"url":"http://evil.example"}`).Refused(400, "unknown_field")
	o.as("dev").post(test, "").Refused(409, "conflict") // disabled
}

type gateway struct {
	*httptest.Server

	status int
	body   string
	header map[string]string
	asked  *http.Request
	sent   []byte
}

func newGateway(t *testing.T, start func(http.Handler) *httptest.Server) *gateway {
	t.Helper()
	g := &gateway{status: 200, body: `{"status":"pong"}`}
	g.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked = r
		g.sent, _ = io.ReadAll(r.Body)
		for name, value := range g.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(g.status)
		_, _ = io.WriteString(w, g.body)
	}))
	t.Cleanup(g.Close)
	return g
}

// TestWebhookTest tests that the ping is signed and goes only to the webhooks' address.
func TestWebhookTest(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	g := newGateway(t, httptest.NewServer)
	o.cfg.BaseURL = g.URL + "/"
	o.start(o.cluster)
	o.as("dev").post(o.apps("/hello/webhook"), "").Is(200)
	test := func() wire.WebhookTest {
		t.Helper()
		got := functest.Read[wire.WebhookTest](o.as("dev").post(o.apps("/hello/webhook/test"), ""), 200)
		if got.RequestID != g.asked.Header.Get("X-Request-Id") {
			t.Errorf("request ID of the ping: got %q, response has %q", g.asked.Header.Get("X-Request-Id"), got.RequestID)
		}
		got.RequestID, got.DurationMS = "", 0
		return got
	}
	check.Equal(t, "a pong", wire.WebhookTest{Result: "pong", Status: 200, Message: "The webhook responded to the ping."}, test())
	claim, ok := hook.ClaimOf(g.asked.Header)
	if !ok || claim.CarriesToken() || !claim.Proves(o.token("hello"), g.sent) || hook.EventOf(g.asked.Header) != hook.Ping ||
		g.asked.Method != http.MethodPost || g.asked.URL.Path != "/api/v1/webhook/"+o.namespace()+"/hello" {
		t.Errorf("sent %s %s %v %s", g.asked.Method, g.asked.URL, g.asked.Header, g.sent)
	}
	if everything := fmt.Sprint(g.asked.Header, string(g.sent)); strings.Contains(everything, string(o.token("hello"))) {
		t.Errorf("the request contains the token: %s", everything)
	}
	tests := []struct {
		name         string
		status       int
		body         string
		header       map[string]string
		result, says string
	}{
		{"refused", 401, `{"code":"invalid_token","message":"No."}`, nil, "refused", "The webhook rejected the ping: 401 invalid_token. No."},
		{"hostile", 500, `{"code":"a\u001b[31m","message":"b\r\n` + strings.Repeat("é", 500) + `"}`, nil, "refused", "500 a?[31m. b??"},
		{"a page", 200, `<html>`, nil, "refused", "The response (200) is not from the webhook."},
		{"endless", 502, strings.Repeat("x", 1<<20), nil, "refused", "response (502)"},
		{"a redirect", 308, "", map[string]string{"Location": "http://127.0.0.1:1/"}, "refused", "returned a redirect (308)"},
		{"another pong", 202, `{"status":"pong"}`, nil, "refused", "response (202)"},
	}
	for _, tt := range tests {
		g.status, g.body, g.header = tt.status, tt.body, tt.header
		if got := test(); got.Result != tt.result || int(got.Status) != tt.status || !strings.Contains(got.Message, tt.says) || len(got.Message) > 600 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestWebhookTestUnreachable(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	o.as("dev").post(o.apps("/hello/webhook"), "").Is(200)
	secure, closed := newGateway(t, httptest.NewTLSServer), newGateway(t, httptest.NewServer)
	closed.Close()
	for _, tt := range []struct{ base, caFile, says string }{
		{"", "", "does not know its public address"}, // the caller's Host is not used
		{closed.URL, "", "the connection failed"},
		{secure.URL, "", "its certificate is not trusted"},
		{secure.URL, filepath.Join(t.TempDir(), "missing.pem"), "its certificate is not trusted"},
		{"http://none.invalid", "", "its name was not found"},
	} {
		o.cfg.BaseURL, o.cfg.IngressCAFile = tt.base, tt.caFile
		o.start(o.cluster)
		got := functest.Read[wire.WebhookTest](o.as("dev").post(o.apps("/hello/webhook/test"), "{}"), 200)
		if got.Result != "unreachable" || got.Status != 0 || !strings.Contains(got.Message, tt.says) {
			t.Errorf("%q: %+v", tt.base, got)
		}
	}
	if secure.asked != nil {
		t.Error("the untrusted server received a request")
	}
}

// TestPingBodyIsOnlyAPing tests that the signed body is neither a push nor a pipeline's call.
func TestPingBodyIsOnlyAPing(t *testing.T) {
	t.Parallel()
	if _, err := hook.ParseEvent(hook.Push, []byte(pingBody)); err == nil {
		t.Error("the body is a push")
	}
	if call, err := hook.ParseEvent(hook.Ping, []byte(pingBody)); err != nil || call.Event != hook.Ping {
		t.Errorf("the body is not a ping: %v", err)
	}
	var in wire.WebhookCall
	if err := httpapi.UnmarshalKnown([]byte(pingBody), &in); err == nil {
		t.Error("the body is a pipeline's call")
	}
}
