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

func TestServiceTokens(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "service tokens: ended, changed, mixed; as another credential; in other projects; creating members, tokens, users, projects",
		"the same 401; nothing of other projects; 403 for anything that outlives the token")
	own, other := newProject(t), newProject(t)
	tried := notTokens(t, own, other)
	tried += elsewhereTokens(t, own)
	tried += ofOthers(t, own, other)
	tried += widened(t, own, other)
	row.Measured(fmt.Sprintf("%d calls", tried))
}

// paths returns a path of each function that accepts sessions.
func (p *project) paths() []string {
	return []string{
		"/api/v1/session", p.fill("/api/v1/projects/{project}/members"), p.fill("/api/v1/projects/{project}/api-keys"),
		p.fill("/api/v1/projects/{project}/api-keys/{key_id}/usage"), p.fill("/api/v1/projects/{project}/environments/{environment}/apps/{app}/deployments"),
		p.fill("/api/v1/projects/{project}/environments/{environment}/apps/{app}/builds"),
	}
}

// notTokens checks that every function rejects invalid tokens in the same way.
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
				t.Errorf("%s, %s: got %d %s", name, path, a.Status, a.Body)
			}
			want = a.Body
		}
	}
	for _, path := range own.paths() {
		if a := call(t, request{path: path, token: good}); a.Status != http.StatusOK {
			t.Errorf("valid token, %s: got %d %s, want %d", path, a.Status, a.Body, http.StatusOK)
		}
	}
	return tried
}

// elsewhereTokens checks that a valid token is rejected as any credential other than an API
// bearer token.
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
			t.Errorf("%s %s %v: got %d %s, want %d", q.method, q.path, q.header, a.Status, a.Body, http.StatusUnauthorized)
		}
	}
	own.site.Gate("hello")
	if a := own.site.Call("hello").Key(stacktest.Key{Full: good}).Send(); a.Status != http.StatusUnauthorized {
		t.Errorf("gated app: got %d %s, want %d", a.Status, a.Body, http.StatusUnauthorized)
	}
	a := call(t, request{path: "/console/projects", header: []string{"Cookie", identity.CookieName + "=" + good}})
	if a.Status != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/console/sign-in") {
		t.Errorf("console: got %d to %s, want the sign-in page", a.Status, a.Header.Get("Location"))
	}
	return len(asks) + 2
}

// ofOthers checks that tokens can neither access other projects nor detect whether they exist.
func ofOthers(t *testing.T, own, other *project) (tried int) {
	t.Helper()
	outsider := own.signIn(t, own.roles[1])
	for _, token := range own.tokens {
		for _, path := range append(other.paths()[1:], "/api/v1/projects/"+other.site.Project, "/api/v1/projects/none-of-that-name", "/api/v1/projects/none-of-that-name/tokens") {
			got, want := call(t, request{path: path, token: token.token}), call(t, request{path: path, token: outsider})
			if tried++; got.Status != http.StatusForbidden || got.Body != want.Body {
				t.Errorf("%s with a token of another project: got %d %s, want %s as an outsider gets", path, got.Status, got.Body, want.Body)
			}
		}
		behind := "/api/v1/projects/" + own.site.Project + "/api-keys/" + other.values["{key_id}"]
		if a := call(t, request{path: behind, token: token.token}); a.Status != http.StatusNotFound {
			t.Errorf("another project's key below the own project: got %d %s, want %d", a.Status, a.Body, http.StatusNotFound)
		}
		if a := call(t, request{path: "/api/v1/projects", token: token.token}); strings.Contains(a.Body, other.site.Project) || !strings.Contains(a.Body, own.site.Project) {
			t.Errorf("list of projects: got %s, want only %s", a.Body, own.site.Project)
		}
		tried += 2
	}
	return tried
}

// widened checks that an owner's token cannot extend its permissions.
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
			t.Errorf("%s %s: got %d %s, want %d", q.method, q.path, a.Status, a.Body, http.StatusForbidden)
		}
	}
	after, err := api.Collect(own.site.Client.Tokens(t.Context(), own.site.Project))
	members, wrong := api.Collect(own.site.Client.Members(t.Context(), own.site.Project))
	if err != nil || wrong != nil || len(after) != len(there) || len(members) != 3 {
		t.Errorf("got %d tokens and %d members, want %d and 3; errors %v, %v", len(after), len(members), len(there), err, wrong)
	}
	return len(tries)
}
