package attack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func adminToken(t *testing.T) string {
	t.Helper()
	return bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "JSON: duplicate fields, 60,000 levels, huge numbers, invalid UTF-8, NUL, comments, a second value",
		"400 or 422 with the API's error; nothing stored")
	s := stacktest.New(t, world)
	admin := adminToken(t)
	plans := "/api/v1/projects/" + s.Project + "/environments/prod/plans"
	const good = `{"name":"p","rate":1,"burst":1}`
	bodies := map[string]string{
		"field twice":         `{"name":"p","rate":1,"burst":1,"rate":100000}`,
		"field in capitals":   `{"name":"p","rate":1,"burst":1,"RATE":100000}`,
		"field escaped":       `{"name":"p","rate":1,"burst":1,"\u0072ate":100000}`,
		"field by Kelvin":     "{\"name\":\"p\",\"rate\":1,\"burst\":1,\"quota\":1,\"quota_period\":\"day\",\"\u212Ainds\":1}",
		"long s":              "{\"name\":\"p\",\"rate\":1,\"burst\":1,\"bur\u017Ft\":1000000}",
		"deep objects":        strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"deep lists":          strings.Repeat("[", 60_000),
		"deep in a field":     `{"name":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`,
		"huge number":         `{"name":"p","rate":1e400,"burst":1}`,
		"huge integer":        `{"name":"p","rate":1,"burst":1` + strings.Repeat("0", 400) + `}`,
		"tiny number":         `{"name":"p","rate":1e-400,"burst":1}`,
		"negative":            `{"name":"p","rate":-1,"burst":1}`,
		"minus zero":          `{"name":"p","rate":-0,"burst":1}`,
		"fraction":            `{"name":"p","rate":1,"burst":1.0000001}`,
		"hex":                 `{"name":"p","rate":0x1,"burst":1}`,
		"NaN":                 `{"name":"p","rate":NaN,"burst":1}`,
		"Infinity":            `{"name":"p","rate":Infinity,"burst":1}`,
		"number as text":      `{"name":"p","rate":"1","burst":1}`,
		"quota beyond":        `{"name":"p","rate":1,"burst":1,"quota":1000000000001,"quota_period":"day"}`,
		"quota over int64":    `{"name":"p","rate":1,"burst":1,"quota":18446744073709551616,"quota_period":"day"}`,
		"BOM":                 "\ufeff" + good,
		"broken UTF-8":        "{\"name\":\"\xc3\x28\",\"rate\":1,\"burst\":1}",
		"overlong":            "{\"name\":\"\xc0\xaf\",\"rate\":1,\"burst\":1}",
		"UTF-16":              "\xff\xfe{\x00}\x00",
		"surrogate":           `{"name":"\ud800","rate":1,"burst":1}`,
		"NUL":                 `{"name":"a\u0000b","rate":1,"burst":1}`,
		"NUL raw":             "{\"name\":\"a\x00b\",\"rate\":1,\"burst\":1}",
		"line break":          `{"name":"a\nb","rate":1,"burst":1}`,
		"bidi":                `{"name":"a\u202eb","rate":1,"burst":1}`,
		"comment":             `{"name":"p",/* */"rate":1,"burst":1}`,
		"single quotes":       `{'name':'p','rate':1,'burst':1}`,
		"trailing comma":      `{"name":"p","rate":1,"burst":1,}`,
		"second value":        good + good,
		"text after":          good + "x",
		"null":                `null`,
		"list":                `[` + good + `]`,
		"text":                `"` + strings.ReplaceAll(good, `"`, `\"`) + `"`,
		"nothing":             ``,
		"prototype":           `{"name":"p","rate":1,"burst":1,"__proto__":{"admin":true}}`,
		"field with a dot":    `{"name":"p","rate":1,"burst":1,"limits.rate":1}`,
		"60 000 fields":       `{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 9000), ",") + `}`,
		"name too long":       `{"name":"` + strings.Repeat("p", 64) + `","rate":1,"burst":1}`,
		"null for a required": `{"name":null,"rate":1,"burst":1}`,
	}
	for name, body := range bodies {
		a := call(t, request{method: http.MethodPost, path: plans, body: body, token: admin, header: []string{"Content-Type", "application/json"}})
		if a.Status != http.StatusBadRequest && a.Status != http.StatusUnprocessableEntity || a.Code() == "" {
			t.Errorf("%s: got %d %.200s", name, a.Status, a.Body)
		}
	}
	s.OnlyHas(0, 0, 0)
	if a := call(t, request{method: http.MethodPost, path: plans, body: good, token: admin}); a.Status != http.StatusCreated {
		t.Errorf("valid body: got %d %s, want %d", a.Status, a.Body, http.StatusCreated)
	}
	row.Measured(fmt.Sprintf("%d bodies", len(bodies)))
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "JSON bodies with other, multiple or invalid content types", "415 or 400; nothing stored")
	s := stacktest.New(t, world)
	s.App("hello")
	url, token := s.Webhook("hello")
	admin := adminToken(t)
	types := []string{
		"", "text/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json, text/plain", "application/jsonx",
		"application/json/x", "application/ json", "application/*", "*/*", "json", "application/vnd.api+json", ";application/json", "application/json\x01",
		"application/xml", "application/cloudevents+json", "text/html; application/json",
	}
	for _, kind := range types {
		if kind == "application/json\x01" {
			continue // rejected by the proxy
		}
		a := call(t, request{
			method: http.MethodPost, path: "/api/v1/projects/" + s.Project + "/environments/prod/plans", token: admin,
			body: `{"name":"p","rate":1,"burst":1}`, header: []string{"Content-Type", kind},
		})
		if a.Status != http.StatusUnsupportedMediaType && a.Status != http.StatusBadRequest {
			t.Errorf("API, %q: got %d %s", kind, a.Status, a.Body)
		}
		if kind == "" {
			continue
		}
		if a := s.Post(url, []byte(`{"image":"registry.example/echo:v2"}`), "Content-Type", kind, "X-Service-Token", token); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("webhook, %q: got %d %s, want %d", kind, a.Status, a.Body, http.StatusUnsupportedMediaType)
		}
	}
	s.OnlyHas(0, 0, 1)
	if h := s.History("hello"); len(h) != 1 {
		t.Errorf("got %d revisions, want 1", len(h))
	}
	row.Measured(fmt.Sprintf("%d", 2*len(types)))
}

func TestPageTokens(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "page tokens: made up, from other lists or projects, with paths; invalid page sizes",
		"400 `invalid_page`, or the list's own items")
	s, other := stacktest.New(t, world), stacktest.New(t, world)
	admin := adminToken(t)
	mine := map[string]bool{}
	p := s.Plan(wire.CreatePlan{})
	for range 3 {
		mine[s.Key(p).ID] = true
	}
	theirs := other.AnyKey()
	encode := base64.RawURLEncoding.EncodeToString
	tokens := map[string]bool{ // whether the token must be rejected
		"x": true, "%": true, "....": true, "AAAA": true, "!!!": true, strings.Repeat("A", 9000): true, "💥": true,
		encode([]byte("../users/admin")): true, encode([]byte("a/b/c")): true, encode([]byte("")): false, encode([]byte("..")): true, encode([]byte("key-\x00")): true,
		encode([]byte(theirs.ID)): false, encode([]byte("canary.x")): false, encode([]byte("key-00000000")): false, encode([]byte("__name__")): false,
		encode([]byte("__id1__")): false, base64.StdEncoding.EncodeToString([]byte("key-0000?>")): false,
	}
	keys := "/api/v1/projects/" + s.Project + "/api-keys?page_token="
	for token, refused := range tokens {
		a := call(t, request{path: keys + strings.NewReplacer("%", "%25", "+", "%2B", "=", "%3D").Replace(token), token: admin})
		var page wire.List[wire.Key]
		switch {
		case a.Status == http.StatusBadRequest && a.Code() == "invalid_page":
		case a.Status == http.StatusOK && !refused && json.Unmarshal([]byte(a.Body), &page) == nil:
			for _, k := range page.Items {
				if !mine[k.ID] {
					t.Errorf("token %q: got %s of project %s", token, k.ID, k.Project)
				}
			}
		default:
			t.Errorf("token %.60q: %d %.200s", token, a.Status, a.Body)
		}
	}
	sizes := []string{"0", "-1", "501", "1e3", "0x10", "9223372036854775808", "NaN", "٣", "%00", "1;2", "+1+"}
	for _, size := range sizes {
		if a := call(t, request{path: "/api/v1/projects/" + s.Project + "/api-keys?page_size=" + size, token: admin}); a.Status != http.StatusBadRequest && (size != "1;2" || a.Status != http.StatusOK) {
			t.Errorf("page_size %s: got %d %.200s", size, a.Status, a.Body)
		}
	}
	row.Measured(fmt.Sprintf("%d", len(tokens)+len(sizes)))
}

func TestMassAssignment(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "IDs, hashes, owners, states, times and roles in request bodies", "400 `unknown_field`; nothing changes")
	s := stacktest.New(t, world)
	s.App("hello")
	s.Settled("hello", 1, "live")
	k := s.AnyKey()
	admin := adminToken(t)
	project := "/api/v1/projects/" + s.Project
	env := project + "/environments/prod"
	calls := map[string][]string{
		"POST /api/v1/users {\"username\":\"mass\",\"password\":\"a long password\"":             {`"hash":"x"`, `"version":7`, `"Admins":true`, `"role":"owner"`},
		"PATCH /api/v1/users/nobody-" + s.Project + " {\"admin\":false":                          {`"version":7`, `"hash":"x"`, `"username":"x"`, `"last_sign_in":null`, `"tokens":[]`},
		"POST " + env + "/plans {\"name\":\"p\",\"rate\":1,\"burst\":1":                          {`"id":"plan-x"`, `"namespace":"other-prod"`, `"project":"other"`, `"environment":"x"`},
		"POST " + env + "/api-keys {\"plan\":\"" + k.Plan + "\"":                                 {`"id":"key-aaaaaaaa"`, `"prefix":"aaaaaaaa"`, `"hash":"x"`, `"secret":"x"`, `"key":"x"`, `"namespace":"x"`, `"created_by":"x"`, `"status":"active"`, `"previous_secret_expires_at":null`},
		"PATCH " + project + "/api-keys/" + k.ID + " {\"name\":\"n\"":                            {`"id":"key-aaaaaaaa"`, `"prefix":"aaaaaaaa"`, `"project":"other"`, `"environment":"x"`, `"namespace":"x"`, `"hash":"x"`, `"created_at":"2020-01-01T00:00:00Z"`, `"last_seen":"2020-01-01"`},
		"PATCH " + env + "/plans/" + k.Plan + " {\"name\":\"n\"":                                 {`"id":"plan-x"`, `"namespace":"x"`},
		"PATCH " + env + "/apps/hello {\"require_api_key\":true":                                 {`"gate":{"state":"engaged"}`, `"revision":7`, `"image":"x:y"`, `"namespace":"x"`, `"kind":"git"`, `"url":"x"`},
		"POST " + env + "/apps {\"name\":\"new\",\"image\":\"registry.example/echo:v1\"":         {`"gate":{"state":"engaged"}`, `"revision":7`, `"namespace":"kube-system"`, `"require_api_key":false`},
		"POST " + env + "/apps/hello/deployments {\"image\":\"registry.example/echo:v2\"":        {`"revision":7`, `"trigger":"webhook"`, `"actor":"x"`, `"status":"live"`, `"digest":"x"`, `"deployed_at":"2020-01-01T00:00:00Z"`},
		"POST " + project + "/environments {\"name\":\"new\"":                                    {`"namespace":"kube-system"`, `"project":"other"`},
		"POST /api/v1/projects {\"name\":\"mass-" + s.Project[:8] + "\"":                         {`"members":[]`, `"role":"owner"`, `"created_at":"2020-01-01T00:00:00Z"`},
		"PUT " + project + "/members {\"members\":[{\"username\":\"admin\",\"role\":\"owner\"}]": {`"admin":true`, `"owner":"x"`},
	}
	before := s.Snapshot()
	n := 0
	for head, fields := range calls {
		target, body, _ := strings.Cut(head, " {")
		method, path, _ := strings.Cut(target, " ")
		for _, field := range fields {
			n++
			if a := call(t, request{method: method, path: path, body: "{" + body + "," + field + "}", token: admin}); a.Status != http.StatusBadRequest || a.Code() != "unknown_field" {
				t.Errorf("%s with %s: got %d %s", target, field, a.Status, a.Body)
			}
		}
	}
	unchanged(s, before)
	row.Measured(fmt.Sprintf("%d fields", n))
}

func TestForeignResourceIDsAreRejected(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "IDs of another project's resources in the caller's project", "404 or 422, as for unknown IDs; nothing changes")
	s, username, password := person(t)
	mine := bearer(t, username, password)
	other := stacktest.New(t, world)
	other.App("secret")
	other.Settled("secret", 1, "live")
	k := other.AnyKey(func(r *wire.CreateKey) { r.Name = "theirs" })
	own := s.Plan(wire.CreatePlan{})
	project := "/api/v1/projects/" + s.Project
	before := other.Snapshot()
	calls := []request{
		{path: project + "/api-keys/" + k.ID},
		{method: http.MethodPatch, path: project + "/api-keys/" + k.ID, body: `{"name":"mine"}`},
		{method: http.MethodPost, path: project + "/api-keys/" + k.ID + "/revoke"},
		{method: http.MethodPost, path: project + "/api-keys/" + k.ID + "/rotate"},
		{path: project + "/api-keys/" + k.ID + "/usage"},
		{path: project + "/environments/prod/plans/" + k.Plan},
		{method: http.MethodDelete, path: project + "/environments/prod/plans/" + k.Plan},
		{method: http.MethodPost, path: project + "/environments/prod/api-keys", body: `{"plan":"` + k.Plan + `"}`},
		{method: http.MethodPost, path: project + "/environments/prod/api-keys", body: `{"plan":"` + other.Project + "-prod." + k.Plan + `"}`},
		{method: http.MethodPost, path: project + "/environments/prod/api-keys", body: `{"plan":"` + own.ID + `","apps":["secret"]}`},
		{path: project + "/environments/prod/apps/secret"},
		{method: http.MethodPost, path: project + "/environments/prod/apps/secret/promote", body: `{"from_environment":"prod"}`},
		{method: http.MethodPost, path: project + "/environments/prod/apps/secret/rollback"},
		{path: project + "/api-keys?environment=../" + other.Project},
	}
	for _, q := range calls {
		q.token = mine
		a := call(t, q)
		if a.Status != http.StatusNotFound && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: got %d %s", q.method, q.path, a.Status, a.Body)
		}
		if strings.Contains(a.Body, "theirs") {
			t.Errorf("%s %s reveals the other project's key: %s", q.method, q.path, a.Body)
		}
	}
	unchanged(other, before)
	row.Measured(fmt.Sprintf("%d", len(calls)))
}
