package tests

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func image(tag string) string { return "registry.example/echo:" + tag }

func deployBody(tag string) []byte {
	return []byte(`{"image":"` + image(tag) + `","commit":"abc1234"}`)
}

func sign(token string, body []byte) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

func TestWebhookDeploys(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	if want := world.Info().BaseURL + "/api/v1/webhook/" + s.Project + "-prod/hello"; url != want {
		t.Errorf("URL: got %s, want %s", url, want)
	}
	a := s.Post(url, deployBody("v2"), "X-Service-Token", token)
	var got wire.WebhookStatus
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("got %d %s, want 202", a.Status, a.Body)
	}
	want := wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: wire.Text(image("v2")), Commit: "abc1234", StatusURL: url + "/deployments/2"}
	check.Equal(t, "response", want, got)
	s.Runs("hello", image("v2"))
	d := s.Settled("hello", 2, "live")
	if d.Trigger != "webhook" || d.Commit != "abc1234" || !d.Current {
		t.Errorf("history: got %+v, want the webhook's commit to be current", d)
	}
	signed := deployBody("v3")
	if a := s.Post(url, signed, "X-Hub-Signature-256", sign(token, signed)); a.Status != http.StatusAccepted {
		t.Errorf("signed: got %d %s, want 202", a.Status, a.Body)
	}
	s.Runs("hello", image("v3"))
}

func TestWebhookReportsResult(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	status := func(header ...string) wire.WebhookStatus {
		t.Helper()
		var got wire.WebhookStatus
		check.OK(t, json.Unmarshal([]byte(stacktest.Get(t, url+"/deployments/2", header...).Body), &got))
		return got
	}
	a := s.Post(url, []byte(`{"image":"`+image("v2")+`","pipeline":{"id":7}}`), "X-Service-Token", token, "Prefer", "wait=60")
	if a.Status != http.StatusOK || !strings.HasPrefix(a.Body, `{"status":"deployed","build":null,"revision":2,`) {
		t.Errorf("with wait: got %d %s, want 200 with revision 2 deployed", a.Status, a.Body)
	}
	if got := status("X-Service-Token", token); got.Status != "live" || string(got.Image) != image("v2") {
		t.Errorf("status: got %+v, want live", got)
	}
	if got := status("X-Service-Token", token+"x"); got.Status != "" {
		t.Errorf("status with a wrong token: got %+v, want none", got)
	}
	a = s.Post(url, deployBody("broken"), "X-Service-Token", token, "Prefer", "wait=300")
	if a.Status != http.StatusOK || !strings.HasPrefix(a.Body, `{"status":"failed","build":null,"revision":3,`) || !strings.Contains(a.Body, `"message":"`) {
		t.Errorf("failed rollout: got %d %s, want 200 with revision 3 failed and a message", a.Status, a.Body)
	}
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	s.App("other")
	s.App("silent")
	url, token := s.Webhook("hello")
	_, foreign := s.Webhook("other")
	for _, app := range []string{"hello", "other", "silent"} {
		s.Settled(app, 1, "live")
	}
	before := s.Snapshot()
	if len(before) < 10 {
		t.Fatalf("snapshot: got %v, want at least 10 entries", before)
	}
	body := deployBody("v2")
	changed := append([]byte(" "), body...)
	silent := strings.Replace(url, "/hello", "/silent", 1)
	tests := []struct {
		name, url string
		header    []string
	}{
		{"no credentials", url, nil},
		{"wrong token", url, []string{"X-Service-Token", "wrong"}},
		{"another app's token", url, []string{"X-Service-Token", foreign}},
		{"token in another case", url, []string{"X-Service-Token", strings.ToUpper(token)}},
		{"token twice", url, []string{"X-Service-Token", token, "X-Service-Token", token}},
		{"empty digest", url, []string{"X-Hub-Signature-256", "sha256="}},
		{"upper-case digest", url, []string{"X-Hub-Signature-256", "sha256=" + strings.ToUpper(sign(token, body)[7:])}},
		{"wrong algorithm", url, []string{"X-Hub-Signature-256", "sha1=" + sign(token, body)[7:]}},
		{"signature of another body", url, []string{"X-Hub-Signature-256", sign(token, changed)}},
		{"right token, wrong signature", url, []string{"X-Service-Token", token, "X-Hub-Signature-256", sign(foreign, body)}},
		{"wrong token, right signature", url, []string{"X-Service-Token", foreign, "X-Hub-Signature-256", sign(token, body)}},
		{"webhook never enabled", silent, []string{"X-Service-Token", token}},
		{"unknown app", strings.Replace(url, "/hello", "/nothere", 1), []string{"X-Service-Token", token}},
		{"unknown namespace", strings.Replace(url, s.Project, "nowhere", 1), []string{"X-Service-Token", token}},
	}
	var first string
	for _, test := range tests {
		a := s.Post(test.url, body, test.header...)
		if first == "" {
			first = a.Body
		}
		if a.Status != http.StatusUnauthorized || a.Code() != "invalid_token" || a.Body != first {
			t.Errorf("%s: got %d %s, want 401 %s", test.name, a.Status, a.Body, first)
		}
	}
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Errorf("documents, Secrets or workloads changed:\n%s", diff)
	}
	if e := s.Echo(s.Call("hello").Gets(http.StatusOK)); e.Image != image("v1") {
		t.Errorf("got image %s, want %s", e.Image, image("v1"))
	}
	if a := s.Post(url, body, "X-Service-Token", token); a.Status != http.StatusAccepted {
		t.Errorf("valid token: got %d %s, want 202", a.Status, a.Body)
	}
}

func TestWebhookStates(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	w, err := s.Client.Webhook(t.Context(), s.Project, s.Env, "hello")
	if err != nil || w.Enabled {
		t.Errorf("new app: got %+v, %v, want a disabled webhook", w, err)
	}
	url, old := s.Webhook("hello")
	_, token := s.Webhook("hello")
	if old == token || len(token) != base64.RawURLEncoding.EncodedLen(32) {
		t.Errorf("new token: got %d characters, same as the previous token: %v", len(token), old == token)
	}
	if a := s.Post(url, deployBody("v2"), "X-Service-Token", old); a.Status != http.StatusUnauthorized {
		t.Errorf("previous token: got %d, want 401", a.Status)
	}
	if a := s.Post(url, deployBody("v2"), "X-Service-Token", token); a.Status != http.StatusAccepted {
		t.Errorf("new token: got %d %s, want 202", a.Status, a.Body)
	}
	check.OK(t, s.Client.DisableWebhook(t.Context(), s.Project, s.Env, "hello"))
	if a := s.Post(url, deployBody("v3"), "X-Service-Token", token); a.Status != http.StatusUnauthorized {
		t.Errorf("disabled: got %d, want 401", a.Status)
	}
}

func TestWebhookBadCalls(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	tests := []struct {
		name, body, kind string
		status           int
		code             string
	}{
		{"no image", `{"commit":"abc1234"}`, "", 422, "image_required"},
		{"not JSON", `{`, "", 400, "malformed_json"},
		{"wrong type", `{"image":"a/b:c","commit":7}`, "", 400, "wrong_type"},
		{"duplicate field", `{"image":"a/b:c","x":1,"x":2}`, "", 400, "malformed_json"},
		{"image without tag", `{"image":"registry.example/echo"}`, "", 422, "invalid_image"},
		{"another type", `image=x`, "application/x-www-form-urlencoded", 415, "unsupported_media_type"},
		{"too large", `{"image":"` + strings.Repeat("a", 1<<20) + `"}`, "", 413, "body_too_large"},
	}
	for _, test := range tests {
		header := []string{"X-Service-Token", token}
		if test.kind != "" {
			header = append(header, "Content-Type", test.kind)
		}
		if a := s.Post(url, []byte(test.body), header...); a.Status != test.status || a.Code() != test.code {
			t.Errorf("%s: got %d %s, want %d %s", test.name, a.Status, a.Body, test.status, test.code)
		}
	}
	if n := len(s.History("hello")); n != 1 {
		t.Errorf("revisions: got %d, want 1", n)
	}
}

func TestRedelivery(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	first := s.Post(url, deployBody("v2"), "X-Service-Token", token, "Idempotency-Key", "one")
	again := s.Post(url, deployBody("v2"), "X-Service-Token", token, "Idempotency-Key", "one")
	if first.Status != http.StatusAccepted || first.Body != again.Body || first.Status != again.Status {
		t.Errorf("redelivery: got %d %s, want %d %s", again.Status, again.Body, first.Status, first.Body)
	}
	if n := len(s.History("hello")); n != 2 {
		t.Errorf("revisions: got %d, want 2", n)
	}
}

// TestTokenIsKeptSecret searches logs, documents and etcd for the token.
func TestTokenIsKeptSecret(t *testing.T) {
	stacktest.Insides(t, "it reads all logs and etcd")
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	s.Post(url, deployBody("v2"), "X-Service-Token", token)
	s.Post(url, deployBody("v2"), "X-Service-Token", token+"x")
	s.Settled("hello", 2, "live")
	s.Deliveries("hello", 2)

	logs, err := filepath.Glob(filepath.Join(world.Info().LogsDir, "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("want logs in %s, got none: %v", world.Info().LogsDir, err)
	}
	for _, file := range logs {
		text, err := os.ReadFile(file)
		check.OK(t, err)
		if bytes.Contains(text, []byte(token)) {
			t.Errorf("%s contains the token", filepath.Base(file))
		}
	}
	for name, text := range s.Documents() {
		if strings.Contains(text, token) || strings.Contains(name, token) {
			t.Errorf("%s contains the token", name)
		}
	}
	// The JSON gateway of etcd returns the stored bytes.
	name := []byte("/registry/secrets/sluice-webhooks/" + s.Project + "-prod.")
	end := append([]byte(nil), name...)
	end[len(end)-1]++
	query, err := json.Marshal(map[string]any{"key": name, "range_end": end})
	check.OK(t, err)
	read := s.Post(world.Info().EtcdURL+"/v3/kv/range", query).Body
	var found struct {
		KVs []struct{ Key, Value []byte } `json:"kvs"`
	}
	if err := json.Unmarshal([]byte(read), &found); err != nil || len(found.KVs) == 0 {
		t.Fatalf("want a Secret in etcd, got %v %.300s", err, read)
	}
	for _, kv := range found.KVs {
		if !bytes.HasPrefix(kv.Value, []byte("k8s:enc:")) || bytes.Contains(kv.Value, []byte(token)) ||
			bytes.Contains(kv.Value, []byte(base64.StdEncoding.EncodeToString([]byte(token)))) {
			t.Errorf("%s is not encrypted in etcd", kv.Key)
		}
	}
}

func TestGitApp(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	if _, err := s.Client.SetGitSource(t.Context(), s.Project, s.Env, "hello", wire.GitSource{Repository: "https://git.example/shop/hello.git", Branch: "main"}); err != nil {
		t.Fatal(err)
	}
	url, token := s.Webhook("hello")
	if a := s.Post(url, deployBody("v2"), "X-Service-Token", token); a.Status != http.StatusConflict || a.Code() != "git_source_attached" {
		t.Errorf("image for a git app: got %d %s, want 409 git_source_attached", a.Status, a.Body)
	}
	push := func(ref, after string, deleted bool) []byte {
		return fmt.Appendf(nil, `{"ref":%q,"before":"%040d","after":%q,"deleted":%v,"repository":{"full_name":"shop/hello"},"pusher":{"name":"ada"}}`, ref, 1, after, deleted)
	}
	commit := strings.Repeat("ab", 20)
	tests := []struct {
		name, event string
		body        []byte
		status      int
		want        string
	}{
		{"ping", "ping", []byte(`{"zen":"Keep it simple.","hook_id":1}`), 200, ""},
		{"another branch", "push", push("refs/heads/dev", commit, false), 202, "ignored"},
		{"branch with the same ending", "push", push("refs/heads/feature/main", commit, false), 202, "ignored"},
		{"a tag", "push", push("refs/tags/main", commit, false), 202, "ignored"},
		{"a deletion", "push", push("refs/heads/main", strings.Repeat("0", 40), true), 202, "ignored"},
		{"a push", "push", push("refs/heads/main", commit, false), 202, "building"},
	}
	for _, test := range tests {
		a := s.Post(url, test.body, "X-GitHub-Event", test.event, "X-GitHub-Delivery", test.name, "X-Hub-Signature-256", sign(token, test.body))
		if a.Status != test.status || !strings.Contains(a.Body, test.want) {
			t.Errorf("%s: got %d %s, want %d %s", test.name, a.Status, a.Body, test.status, test.want)
		}
	}
	// A detached app keeps its image and accepts images again.
	check.OK(t, s.Client.RemoveGitSource(t.Context(), s.Project, s.Env, "hello"))
	app, err := s.Client.App(t.Context(), s.Project, s.Env, "hello")
	if err != nil || app.Kind != "image" || app.Image != image("v1") {
		t.Errorf("detached: got %+v, %v, want the image %s", app, err, image("v1"))
	}
	if a := s.Post(url, deployBody("v2"), "X-Service-Token", token); a.Status != http.StatusAccepted {
		t.Errorf("image after detaching: got %d %s, want 202", a.Status, a.Body)
	}
}

func TestWebhookDeliveries(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	if _, err := s.Client.TestWebhook(t.Context(), s.Project, s.Env, "hello"); !client.HasCode(err, "conflict") {
		t.Errorf("test of a disabled webhook: got %v, want conflict", err)
	}
	url, token := s.Webhook("hello")
	s.Post(url, deployBody("v2"), "X-Service-Token", token, "X-Request-Id", "call-1", "Idempotency-Key", "job-7")
	s.Deliveries("hello", 1)
	s.Post(url, []byte(`{}`), "X-Service-Token", token, "X-Request-Id", "call-2")
	s.Deliveries("hello", 2)
	for range 3 {
		s.Post(url, deployBody("v3"), "X-Service-Token", token+"x", "X-Request-Id", "call-3")
	}
	s.Deliveries("hello", 3)
	test, err := s.Client.TestWebhook(t.Context(), s.Project, s.Env, "hello")
	if err != nil || test.Result != wire.HookTestPong || test.Status != http.StatusOK {
		t.Fatalf("test: got %+v, %v, want 200 %s", test, err, wire.HookTestPong)
	}
	got := s.Deliveries("hello", 4)
	for i := range got {
		if got[i].ID == "" || got[i].At.IsZero() || got[i].LastAt.Before(got[i].At) || got[i].Count < 1 {
			t.Errorf("got the delivery %+v, want an ID, times and a count", got[i])
		}
		got[i].ID, got[i].At, got[i].LastAt, got[i].Count = "", time.Time{}, time.Time{}, 0
	}
	want := []wire.WebhookDelivery{
		{Result: "pong", Event: "ping", RequestID: wire.Text(test.RequestID)},
		{Result: "unproven", Code: "invalid_token", RequestID: "call-3"},
		{Result: "refused", Code: "image_required", RequestID: "call-2"},
		{Result: "deployed", Revision: 2, Commit: "abc1234", RequestID: "call-1", Delivery: "job-7"},
	}
	check.Equal(t, "deliveries", want, got)
	if h := s.History("hello"); len(h) != 2 {
		t.Errorf("revisions: got %d, want 2", len(h))
	}
}
