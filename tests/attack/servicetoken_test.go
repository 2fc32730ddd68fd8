package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	api "github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestServiceTokens: what a thief of a service token gets from it, and somebody who has
// none, or one that is good no more.
func TestServiceTokens(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "service tokens: revoked, expired, truncated, changed, with another's id or secret; as a cookie, an API key, a webhook's token, a password; of another project; an owner's that makes members, tokens, users and projects, or ends its own kind",
		"401, always the same; nothing of another project, as for a stranger; 403 for what would outlive it; and nothing is made")
	own, other := newProject(t), newProject(t)
	tried := notTokens(t, own, other)
	tried += elsewhereTokens(t, own)
	tried += ofOthers(t, own, other)
	tried += widened(t, own, other)
	row.Measured(fmt.Sprintf("%d calls", tried))
}

// paths are one of each function that takes sessions.
func (p *project) paths() []string {
	return []string{
		"/api/v1/session", p.fill("/api/v1/projects/{project}/members"), p.fill("/api/v1/projects/{project}/api-keys"),
		p.fill("/api/v1/projects/{project}/api-keys/{key_id}/usage"), p.fill("/api/v1/projects/{project}/environments/{environment}/apps/{app}/deployments"),
		p.fill("/api/v1/projects/{project}/environments/{environment}/apps/{app}/builds"),
	}
}

// notTokens are refused alike, at every function.
func notTokens(t *testing.T, own, other *project) (tried int) {
	t.Helper()
	good, another := own.tokens[2].token, other.tokens[2].token
	const body = len("sluice_st_123456789012_")
	tokens := map[string]string{
		"revoked": own.ended[0].token, "expired": own.ended[1].token,
		"truncated": good[:len(good)-1], "longer": good + "0", "upper case": strings.ToUpper(good),
		"another's id": another[:body] + good[body:], "another's secret": good[:body] + another[body:],
		"a key's marker": strings.Replace(good, "_st_", "_", 1), "the marker": "sluice_st_", "its id": good[:body],
		"a path": "sluice_st_../users/ad_" + good[body:], "twice": good + "," + good, "a key": own.site.AnyKey().Full,
	}
	want := ""
	for name, token := range tokens {
		for _, path := range own.paths() {
			a := call(t, request{path: path, header: []string{"Authorization", "Bearer " + token}})
			if tried++; a.Status != http.StatusUnauthorized || want != "" && a.Body != want {
				t.Errorf("%s, %s: %d %s", name, path, a.Status, a.Body)
			}
			want = a.Body
		}
	}
	for _, path := range own.paths() {
		if a := call(t, request{path: path, token: good}); a.Status != http.StatusOK {
			t.Errorf("a good one, %s: %d %s", path, a.Status, a.Body)
		}
	}
	return tried
}

// elsewhereTokens are good tokens where none is taken.
func elsewhereTokens(t *testing.T, own *project) (tried int) {
	t.Helper()
	good := own.tokens[2].token
	hook := own.fill("/api/v1/webhook/{namespace}/{app}")
	asks := []request{
		{path: own.paths()[1], header: []string{"Cookie", identity.CookieName + "=" + good}},
		{path: own.paths()[1], header: []string{"X-API-Key", good}},
		{path: own.paths()[1], header: []string{"X-Service-Token", good}},
		{path: own.paths()[1], header: []string{"Authorization", "Basic " + good}},
		{path: "/api/v1/key", header: []string{"X-API-Key", good}},
		{path: "/api/v1/key", token: good},
		{method: http.MethodPost, path: hook, body: `{"image":"registry.example/echo:v9"}`, token: good},
		{method: http.MethodPost, path: hook, body: `{"image":"registry.example/echo:v9"}`, header: []string{"X-Service-Token", good}},
		{method: http.MethodPost, path: "/api/v1/session", body: fmt.Sprintf(`{"username":"token:matrix-owner","password":%q}`, good)},
	}
	for _, q := range asks {
		if a := call(t, q); a.Status != http.StatusUnauthorized {
			t.Errorf("%s %s %v: %d %s", q.method, q.path, q.header, a.Status, a.Body)
		}
	}
	own.site.Gate("hello")
	if a := own.site.Call("hello").Key(stacktest.Key{Full: good}).Send(); a.Status != http.StatusUnauthorized {
		t.Errorf("the gated app: %d %s", a.Status, a.Body)
	}
	a := call(t, request{path: "/console/projects", header: []string{"Cookie", identity.CookieName + "=" + good}})
	if a.Status != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/console/sign-in") {
		t.Errorf("the console: %d to %s", a.Status, a.Header.Get("Location"))
	}
	return len(asks) + 2
}

// ofOthers are another project's things, and projects that are not there.
func ofOthers(t *testing.T, own, other *project) (tried int) {
	t.Helper()
	stranger := own.signIn(t, own.roles[1])
	for _, token := range own.tokens {
		for _, path := range append(other.paths()[1:], "/api/v1/projects/"+other.site.Project, "/api/v1/projects/none-of-that-name", "/api/v1/projects/none-of-that-name/tokens") {
			got, want := call(t, request{path: path, token: token.token}), call(t, request{path: path, token: stranger})
			if tried++; got.Status != http.StatusForbidden || got.Body != want.Body {
				t.Errorf("%s with a token of another project: %d %s, a stranger gets %s", path, got.Status, got.Body, want.Body)
			}
		}
		behind := "/api/v1/projects/" + own.site.Project + "/api-keys/" + other.values["{key_id}"]
		if a := call(t, request{path: behind, token: token.token}); a.Status != http.StatusNotFound {
			t.Errorf("another project's key behind one's own: %d %s", a.Status, a.Body)
		}
		if a := call(t, request{path: "/api/v1/projects", token: token.token}); strings.Contains(a.Body, other.site.Project) || !strings.Contains(a.Body, own.site.Project) {
			t.Errorf("the list of projects: %s", a.Body)
		}
		tried += 2
	}
	return tried
}

// widened are an owner's token's ways to more than it has.
func widened(t *testing.T, own, other *project) (tried int) {
	t.Helper()
	owner, outsider := own.tokens[2].token, own.roles[1].username
	tokens := "/api/v1/projects/" + own.site.Project + "/tokens"
	there, err := api.Collect(own.site.Client.Tokens(t.Context(), own.site.Project))
	check.OK(t, err)
	tries := []request{
		{method: http.MethodPost, path: tokens, body: `{"name":"mine","role":"viewer","expires_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`},
		{method: http.MethodPost, path: "/api/v1/projects/" + other.site.Project + "/tokens", body: `{"name":"mine","role":"viewer"}`},
		{method: http.MethodPut, path: own.paths()[1], body: fmt.Sprintf(`{"members":[{"username":%q,"role":"owner"}]}`, outsider)},
		{method: http.MethodPut, path: own.paths()[1], body: `{"members":[{"username":"token:matrix-owner","role":"owner"}]}`},
		{method: http.MethodDelete, path: own.paths()[1] + "/" + own.roles[2].username},
		{method: http.MethodPost, path: "/api/v1/users", body: `{"username":"mine-` + own.site.Project + `","password":"a long enough password"}`},
		{method: http.MethodPut, path: "/api/v1/users/" + outsider + "/password", body: `{"password":"a long enough password"}`},
		{method: http.MethodPut, path: "/api/v1/users/token:matrix-owner/password", body: `{"current_password":"x","password":"a long enough password"}`},
		{method: http.MethodPost, path: "/api/v1/projects", body: `{"name":"mine-` + own.site.Project + `"}`},
		{method: http.MethodDelete, path: "/api/v1/session"},
		{path: "/api/v1/users"},
		{path: "/api/v1/audit"},
	}
	for _, token := range there {
		tries = append(tries, request{method: http.MethodDelete, path: tokens + "/" + token.ID})
	}
	for _, q := range tries {
		q.token = owner
		if a := call(t, q); a.Status != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", q.method, q.path, a.Status, a.Body)
		}
	}
	after, err := api.Collect(own.site.Client.Tokens(t.Context(), own.site.Project))
	members, wrong := api.Collect(own.site.Client.Members(t.Context(), own.site.Project))
	if err != nil || wrong != nil || len(after) != len(there) || len(members) != 3 {
		t.Errorf("%d tokens and %d members after it, %v, %v", len(after), len(members), err, wrong)
	}
	return len(tries)
}
