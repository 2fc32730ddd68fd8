package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

const tokensPath = "/console/projects/shop/tokens"

func someTokens() []wire.Token {
	token := func(id, name, status string, left time.Duration) wire.Token {
		return wire.Token{
			ID: id, Project: "shop", Name: name, Role: "developer", Status: status,
			ExpiresAt: time.Now().Add(left), CreatedAt: time.Now().Add(-time.Hour), CreatedBy: "ada",
		}
	}
	used := time.Now().Add(-10 * time.Minute)
	all := []wire.Token{
		token("token-000000000001", "nightly", "active", 1000*time.Hour),
		token("token-000000000002", "soon", "active", 50*time.Hour),
		token("token-000000000003", "over", "expired", -time.Hour),
	}
	all[0].LastUsedAt = &used
	return all
}

func newTokenOffice(t *testing.T) *office {
	t.Helper()
	o := newOffice(t)
	o.answer("GET /api/v1/projects/shop/members", 200, wire.List[wire.Member]{Items: []wire.Member{{Username: "ada", Role: "owner"}}})
	o.answer("GET /api/v1/projects/shop/tokens", 200, wire.List[wire.Token]{Items: someTokens()})
	for _, token := range someTokens() {
		o.answer("GET /api/v1/projects/shop/tokens/"+token.ID, 200, token)
	}
	return o
}

func TestTokensAreListed(t *testing.T) {
	t.Parallel()
	o := newTokenOffice(t)
	body := o.get("/console/projects/shop/members").Text()
	for _, want := range []string{"nightly", "10 min ago", "Expires in 2 days", "Expired", "Never", tokensPath + "/new", tokensPath + "/token-000000000003/revoke"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "viewer"})
	if body = o.get("/console/projects/shop/members").Text(); strings.Contains(body, "/tokens/") || !strings.Contains(body, "nightly") {
		t.Error("a viewer can change tokens, or does not see them")
	}
}

func TestCreateToken(t *testing.T) {
	t.Parallel()
	const full = "sluice_st_ab12cd34ef56_0123456789abcdefghijABCDEFGHIJ0123456789"
	o := newTokenOffice(t)
	if body := o.get(tokensPath + "/new").Text(); !strings.Contains(body, time.Now().UTC().AddDate(0, 0, 90).Format(time.DateOnly)) {
		t.Error("the form has no default for the last day")
	}
	o.answer("POST /api/v1/projects/shop/tokens", 201, wire.IssuedToken{Token: someTokens()[0], FullToken: full})
	typed := url.Values{"name": {"nightly"}, "role": {"developer"}, "expires_at": {"2026-12-31"}}
	w := o.post(tokensPath, typed)
	if w.Status != 200 || strings.Count(w.Text(), full) != 1 || w.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %s", w.Status, w.Body)
	}
	want := `POST /api/v1/projects/shop/tokens {"name":"nightly","role":"developer","expires_at":"2027-01-01T00:00:00Z"}`
	if got := o.changes(); len(got) != 1 || strings.TrimSpace(got[0]) != want {
		t.Errorf("got the calls %q, want %q", got, want)
	}
	for code, field := range map[string]string{"already_exists": "name", "invalid_role": "role", "invalid_expiry": "expires_at"} {
		o.refuse("POST /api/v1/projects/shop/tokens", 422, code)
		w := o.post(tokensPath, typed)
		if body := w.Text(); w.Status != 422 || !strings.Contains(body, `id="e-`+field+`">The API says `+code) || !strings.Contains(body, `value="nightly"`) {
			t.Errorf("%s: got %d %s", code, w.Status, body)
		}
	}
	if w := o.get(tokensPath); w.Status != 303 || w.Header.Get("Location") != "/console/projects/shop/members" {
		t.Errorf("reload: got %d to %s", w.Status, w.Header.Get("Location"))
	}
}

func TestRevokeToken(t *testing.T) {
	t.Parallel()
	o := newTokenOffice(t)
	const path = tokensPath + "/token-000000000001/revoke"
	if body := o.get(path).Text(); !strings.Contains(body, "Revoke the service token nightly?") {
		t.Error(body)
	}
	o.get(tokensPath + "/token-00000000000x/revoke").Shows(404)
	const call = "DELETE /api/v1/projects/shop/tokens/token-000000000001"
	count := 0
	o.answer(call, 200, wire.RevokedToken{KeyCount: &count, Keys: []wire.TokenKey{}})
	if w := o.post(path, nil); w.Status != 303 || len(o.changes()) != 1 {
		t.Errorf("got %d, calls %q", w.Status, o.changes())
	}
	count = 2
	key := wire.TokenKey{NamedKey: wire.NamedKey{KeyID: "key-ab12cd34", Prefix: "ab12cd34", Name: "<b>batch</b>"}, Environment: "prod"}
	o.answer(call, 200, wire.RevokedToken{KeyCount: &count, Keys: []wire.TokenKey{key}})
	w := o.post(path, nil)
	for _, want := range []string{"stay valid", "/console/projects/shop/environments/prod/api-keys/key-ab12cd34", "&lt;b&gt;batch", "Keys that are not listed here: 1."} {
		w.Shows(200, want)
	}
	o.answer(call, 200, wire.RevokedToken{Keys: []wire.TokenKey{}})
	o.post(path, nil).Shows(200, "is unavailable")
	o.refuse("DELETE /api/v1/projects/shop/tokens/token-000000000001", 403, "forbidden")
	o.post(path, nil).Shows(403, "The API says forbidden.")
}
