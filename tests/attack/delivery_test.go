package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestHostileDeliveries authenticates with the token, because signed calls share the limit of the
// client's address with the floods of other tests.
func TestHostileDeliveries(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "webhook calls with hostile event, delivery and request IDs; secrets in other headers",
		"listed as printable ASCII, at most 128 characters; no token, signature, body or other header is stored")
	s := stacktest.New(t, world)
	s.App("hello")
	address, token := s.Webhook("hello")
	const body = `{"zen":"the-body-itself"}`
	texts := []string{
		`<script>alert(1)</script>`, `"><svg onload=alert(1)>`, `{{.CSRF}}`, `__proto__`, "../../audit/x", "a\tb", "\u202egnp.exe", "\xff\xfe\x80",
		"é€😀", strings.Repeat("x", 8000), strings.Repeat("é", 4000), `{"result":"deployed"}`, "%0d%0aSet-Cookie:%20a=b", "'; DROP TABLE receipts; --",
	}
	for _, text := range texts {
		a := s.Post(address, []byte(body), "X-Service-Token", token, "X-Hub-Signature-256", signature(token, body), "X-GitHub-Event", "x"+text, "X-GitHub-Delivery", text,
			"X-Request-Id", text, "Authorization", "Bearer a-secret-of-others", "Cookie", "a-secret-of-others=1", "X-Other", "a-secret-of-others")
		if a.Status != http.StatusAccepted {
			t.Errorf("%.40q: got %d %s, want %d", text, a.Status, a.Body, http.StatusAccepted)
		}
	}
	listed := s.Deliveries("hello", len(texts))
	for _, d := range listed {
		for _, text := range []string{string(d.Event), string(d.Delivery), string(d.RequestID)} {
			if len(text) > 128 || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("listed %q", text)
			}
		}
	}
	found, err := json.Marshal(listed)
	check.OK(t, err)
	everything := string(found)
	for name, text := range s.Documents() {
		if strings.Contains(name, "/receipts/") {
			everything += text
		}
	}
	for _, secret := range []string{token, signature(token, body), "a-secret-of-others", "the-body-itself"} {
		if strings.Contains(everything, secret) {
			t.Errorf("%s is stored", secret)
		}
	}
	row.Measured(fmt.Sprintf("%d texts", len(texts)))
}

func TestUnverifiedCallsWriteNothing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "unauthenticated webhook calls to apps with and without a webhook and to unknown apps",
		"401, 413 or 429 for all; one receipt counts them, only for the existing webhook")
	s := stacktest.New(t, world)
	s.App("hello")
	s.App("quiet")
	address, token := s.Webhook("hello")
	if a := s.Post(address, []byte(`{}`), "X-Service-Token", token, "X-GitHub-Event", "ping"); a.Status != http.StatusOK {
		t.Fatalf("authenticated call: got %d %s", a.Status, a.Body)
	}
	s.Deliveries("hello", 1)
	base, _ := strings.CutSuffix(address, "/hello")
	large := strings.Repeat(" ", 1<<20+1)
	calls := 0
	for range 6 { // stay below the limit of the address, which parallel tests share
		for _, name := range []string{"hello", "quiet", "made-up"} {
			at := base + "/" + name
			for _, c := range []struct {
				body   string
				header []string
			}{
				{`{}`, nil},
				{`{}`, []string{"X-Service-Token", strings.Repeat("A", 43)}},
				{`{}`, []string{"X-Hub-Signature-256", signature("another", `{}`), "X-GitHub-Delivery", "d"}},
				{large, []string{"X-Hub-Signature-256", signature("another", large)}},
			} {
				calls++
				if a := s.Post(at, []byte(c.body), c.header...); a.Status != 401 && a.Status != 413 && a.Status != 429 {
					t.Errorf("%s: got %d %s", at, a.Status, a.Body)
				}
			}
		}
	}
	listed := s.Deliveries("hello", 2)
	if len(listed) != 2 || listed[0].Result != "unproven" || listed[1].Result != "pong" {
		t.Errorf("listed: got %+v, want unproven and pong", listed)
	}
	written := 0
	for name, text := range s.Documents() {
		if strings.Contains(name, "/receipts/") && strings.Contains(text, s.Project+"-"+s.Env) {
			written++
		}
	}
	if written != len(listed) {
		t.Errorf("stored receipts: got %d, want %d", written, len(listed))
	}
	row.Measured(fmt.Sprintf("%d calls, %d receipt", calls, written-1))
}
