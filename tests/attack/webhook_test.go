package attack

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/stacktest"
)

func signature(token, body string) string {
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// TestWebhookReplay: a call that somebody recorded, sent again in every way.
func TestWebhookReplay(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "replay of a recorded webhook call: as it was, under another delivery's id with another body, to another app and environment, after the token was renewed, changed in a byte",
		"as it was: the first answer, and nothing deployed; otherwise 401 or 409, and nothing deployed")
	s := stacktest.New(t, world)
	s.App("hello")
	s.App("other")
	elsewhere := s.In("test")
	elsewhere.App("hello")
	address, token := s.Webhook("hello")
	otherAddress, _ := s.Webhook("other")
	elseAddress, _ := elsewhere.Webhook("hello")
	const body = `{"image":"registry.example/echo:v2"}`
	signed := signature(token, body)
	headers := []string{"X-Hub-Signature-256", signed, "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
	first := s.Post(address, []byte(body), headers...)
	if first.Status != http.StatusAccepted {
		t.Fatalf("the call itself: %d %s", first.Status, first.Body)
	}
	s.Settled("hello", 2, "live")
	before := s.Snapshot()
	for range 5 {
		if a := s.Post(address, []byte(body), headers...); a.Status != http.StatusAccepted || a.Body != first.Body || a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again: %d %s", a.Status, a.Body)
		}
	}
	const second = `{"image":"registry.example/echo:v3"}`
	tests := []struct {
		name, address, body string
		status              int
		header              []string
	}{
		{"another app", otherAddress, body, 401, headers},
		{"another environment", elseAddress, body, 401, headers},
		{"another body", address, second, 401, headers},
		{"another body, the same delivery", address, second, 409, []string{"X-Hub-Signature-256", signature(token, second), headers[2], headers[3]}},
		{"a byte more", address, body + " ", 401, headers},
		{"fields in another order", address, `{ "image":"registry.example/echo:v2"}`, 401, headers},
		{"a query", address + "?image=x", second, 401, headers},
		{"signature of nothing", address, body, 401, []string{"X-Hub-Signature-256", signature(token, "")}},
		{"signature under no token", address, body, 401, []string{"X-Hub-Signature-256", signature("", body)}},
		{"the digest alone", address, body, 401, []string{"X-Hub-Signature-256", strings.TrimPrefix(signed, "sha256=")}},
		{"half the digest", address, body, 401, []string{"X-Hub-Signature-256", signed[:39]}},
		{"two signatures", address, body, 401, []string{"X-Hub-Signature-256", "sha256=00", "X-Hub-Signature-256", signed}},
		{"a list of signatures", address, body, 401, []string{"X-Hub-Signature-256", "sha256=00, " + signed}},
		{"SHA-1", address, body, 401, []string{"X-Hub-Signature", sha1Signature(token, body)}},
		{"SHA-1 in the other header", address, body, 401, []string{"X-Hub-Signature-256", sha1Signature(token, body)}},
		{"the signature as token", address, body, 401, []string{"X-Service-Token", signed}},
		{"a session", address, body, 401, []string{"Authorization", "Bearer " + adminToken(t)}},
		{"the token in the address", address + "?token=" + token, body, 401, nil},
		{"the token as bearer", address, body, 401, []string{"Authorization", "Bearer " + token}},
		{"the token in a cookie", address, body, 401, []string{"Cookie", "X-Service-Token=" + token}},
	}
	for _, test := range tests {
		if a := s.Post(test.address, []byte(test.body), test.header...); a.Status != test.status {
			t.Errorf("%s: %d %s", test.name, a.Status, a.Body)
		}
	}
	if diff := cmp.Diff(before, s.Snapshot()); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
	_, renewed := s.Webhook("hello")
	if a := s.Post(address, []byte(body), headers...); a.Status != http.StatusUnauthorized {
		t.Errorf("after the token was renewed: %d %s", a.Status, a.Body)
	}
	if h := s.History("hello"); len(h) != 2 || renewed == token {
		t.Errorf("%d revisions", len(h))
	}
	row.Measured(fmt.Sprintf("%d calls", len(tests)+6))
}

func sha1Signature(token, body string) string {
	m := hmac.New(sha1.New, []byte(token))
	m.Write([]byte(body))
	return "sha1=" + hex.EncodeToString(m.Sum(nil))
}

// TestEvents: whoever is inside the cluster, and believes itself the build system.
func TestEvents(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "build events without, with a wrong, and with an encoded token in their path; the events path under other spellings", "401 or 404, no build moves")
	event := `{"specversion":"1.0","id":"1","source":"x","type":"dev.tekton.event.pipelinerun.successful.v1","data":{"pipelineRun":{}}}`
	paths := []string{"/events/", "/events/x", "/events/%00", "/events//", "/events/../events/x", "/events/x/y", "/Events/x", "/events/" + strings.Repeat("a", 5000), "/events/%2e%2e"}
	for _, path := range paths {
		got := raw(t, atFunction("builds"), "POST "+path+" HTTP/1.1\r\nHost: builds\r\nConnection: close\r\nContent-Type: application/cloudevents+json\r\n"+
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(event), event))
		for _, a := range answers(t, got) {
			if a.Status != 401 && a.Status != 404 && a.Status != 400 && a.Status != 307 && a.Status != 301 {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	}
	row.Measured(fmt.Sprintf("%d", len(paths)))
}
