package tests

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// api calls the management API without the typed client.
type api struct {
	t     *testing.T
	token string
}

func newAPI(t *testing.T) api {
	t.Helper()
	session, err := client.New(world.Info().BaseURL).SignIn(t.Context(), world.Info().Admin.Username, world.Info().Admin.Password)
	check.OK(t, err)
	return api{t: t, token: string(session.Token)}
}

func (a api) do(method, path, body string, headers ...string) (status int, code, text string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, world.Info().BaseURL+"/api/v1"+path, bytes.NewReader([]byte(body)))
	check.OK(a.t, err)
	req.Header.Set("Authorization", "Bearer "+a.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	got, err := stacktest.Do(http.DefaultClient, req)
	check.OK(a.t, err)
	return got.Status, got.Code(), got.Body
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	good := s.Plan(wire.CreatePlan{})
	k := s.Key(good)
	a := newAPI(t)
	plans, keys := "/projects/"+s.Project+"/environments/prod/plans", "/projects/"+s.Project+"/environments/prod/api-keys"
	key := "/projects/" + s.Project + "/api-keys/" + k.ID
	tests := []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"malformed JSON", "POST", plans, `{"name":`, 400, "malformed_json"},
		{"two values", "POST", plans, `{"name":"a","rate":1,"burst":1}{}`, 400, "malformed_json"},
		{"duplicate field", "POST", plans, `{"name":"a","name":"b","rate":1,"burst":1}`, 400, "malformed_json"},
		{"not an object", "POST", plans, `[]`, 400, "wrong_type"},
		{"wrong type", "POST", plans, `{"name":1,"rate":1,"burst":1}`, 400, "wrong_type"},
		{"rate as text", "POST", plans, `{"name":"a","rate":"1","burst":1}`, 400, "wrong_type"},
		{"burst with a fraction", "POST", plans, `{"name":"a","rate":1,"burst":1.5}`, 400, "wrong_type"},
		{"unknown parameter", "GET", plans + "?pagesize=2", "", 400, "unknown_parameter"},
		{"parameter of a route without parameters", "POST", plans + "?dry_run=true", `{"name":"a","rate":1,"burst":1}`, 400, "unknown_parameter"},
		{"unknown field", "POST", plans, `{"name":"a","rate":1,"burst":1,"brust":2}`, 400, "unknown_field"},
		{"not UTF-8", "POST", plans, "{\"name\":\"\xff\",\"rate\":1,\"burst\":1}", 400, "malformed_json"},
		{"rate without burst", "POST", plans, `{"name":"a","rate":1}`, 422, "missing_field"},
		{"burst without rate", "POST", plans, `{"name":"a","burst":1}`, 422, "missing_field"},
		{"no name", "POST", plans, `{"rate":1,"burst":1}`, 422, "missing_field"},
		{"long name", "POST", plans, `{"name":"` + strings.Repeat("a", 64) + `","rate":1,"burst":1}`, 422, "invalid_name"},
		{"control character", "POST", plans, `{"name":"a\u0000b","rate":1,"burst":1}`, 422, "invalid_name"},
		{"rate zero", "POST", plans, `{"name":"a","rate":0,"burst":1}`, 422, "invalid_rate"},
		{"rate negative", "POST", plans, `{"name":"a","rate":-1,"burst":1}`, 422, "invalid_rate"},
		{"rate huge", "POST", plans, `{"name":"a","rate":100001,"burst":1}`, 422, "invalid_rate"},
		{"rate out of range", "POST", plans, `{"name":"a","rate":1e999,"burst":1}`, 400, "wrong_type"},
		{"burst zero", "POST", plans, `{"name":"a","rate":1,"burst":0}`, 422, "invalid_burst"},
		{"burst huge", "POST", plans, `{"name":"a","rate":1,"burst":1000001}`, 422, "invalid_burst"},
		{"quota without period", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota":5}`, 422, "invalid_quota"},
		{"period without quota", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota_period":"day"}`, 422, "invalid_quota"},
		{"quota zero", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota":0,"quota_period":"day"}`, 422, "invalid_quota"},
		{"quota huge", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota":1000000000001,"quota_period":"day"}`, 422, "invalid_quota"},
		{"unknown period", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota":5,"quota_period":"year"}`, 422, "invalid_quota"},
		{"mode without quota", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota_mode":"hard"}`, 422, "invalid_quota"},
		{"unknown mode", "POST", plans, `{"name":"a","rate":1,"burst":1,"quota":5,"quota_period":"day","quota_mode":"firm"}`, 422, "invalid_quota"},
		{"key without plan", "POST", keys, `{}`, 422, "missing_field"},
		{"key of an unknown plan", "POST", keys, `{"plan":"plan-nothere"}`, 422, "unknown_plan"},
		{"key with a path as its plan", "POST", keys, `{"plan":"../../x"}`, 422, "unknown_plan"},
		{"key for an unknown app", "POST", keys, `{"plan":"` + good.ID + `","apps":["nothere"]}`, 422, "invalid_scope"},
		{"expiry in the past", "POST", keys, `{"plan":"` + good.ID + `","expires_at":"2020-01-01T00:00:00Z"}`, 422, "expiry_in_past"},
		{"expiry is not a timestamp", "POST", keys, `{"plan":"` + good.ID + `","expires_at":"tomorrow"}`, 422, "invalid_expiry"},
		{"key name too long", "POST", keys, `{"plan":"` + good.ID + `","name":"` + strings.Repeat("x", 101) + `"}`, 422, "invalid_name"},
		{"key name with a line break", "POST", keys, `{"plan":"` + good.ID + `","name":"a\r\nX-Evil: 1"}`, 422, "invalid_name"},
		{"tag", "PATCH", key, `{"tags":["Batch"]}`, 422, "invalid_tag"},
		{"duration without requests", "GET", keys + "?unused_for=90d", "", 400, "invalid_parameter"},
		{"bulk change without a kind", "POST", keys + "/bulk", `{"keys":["` + k.ID + `"],"change":{}}`, 400, "invalid_parameter"},
		{"bulk change of repeated keys", "POST", keys + "/bulk", `{"keys":["` + k.ID + `","` + k.ID + `"],"change":{"revoke":true}}`, 400, "invalid_parameter"},
		{"rows of an export", "GET", "/projects/" + s.Project + "/environments/prod/usage.csv?per=week", "", 400, "invalid_parameter"},
		{"status unknown", "PATCH", key, `{"status":"revoked"}`, 422, "invalid_status"},
		{"grace too long", "POST", key + "/rotate", `{"grace":"721h"}`, 422, "invalid_grace"},
		{"grace negative", "POST", key + "/rotate", `{"grace":"-1s"}`, 422, "invalid_grace"},
		{"unknown key", "GET", "/projects/" + s.Project + "/api-keys/key-00000000", "", 404, "not_found"},
		{"ID of another kind of document", "GET", "/projects/" + s.Project + "/api-keys/canary.checker-0", "", 404, "not_found"},
		{"unknown plan", "GET", plans + "/plan-nothere", "", 404, "not_found"},
		{"plan in use", "DELETE", plans + "/" + good.ID, "", 409, "plan_in_use"},
		{"unknown path", "GET", "/projects/" + s.Project + "/nothing/here", "", 404, "not_found"},
		{"unknown method", "PUT", keys, `{}`, 405, "method_not_allowed"},
		{"page size", "GET", keys + "?page_size=501", "", 400, "invalid_page"},
		{"page token", "GET", keys + "?page_token=%21", "", 400, "invalid_page"},
		{"app name that no Service can have", "POST", "/projects/" + s.Project + "/environments/prod/apps", `{"name":"1st","image":"a/b:c"}`, 422, "invalid_name"},
		{"app name", "POST", "/projects/" + s.Project + "/environments/prod/apps", `{"name":"No!","image":"a/b:c"}`, 422, "invalid_name"},
		{"image without tag", "POST", "/projects/" + s.Project + "/environments/prod/apps", `{"name":"x","image":"registry.example/a"}`, 422, "invalid_image"},
		{"host that breaks out", "POST", "/projects/" + s.Project + "/environments/prod/apps", "{\"name\":\"x\",\"image\":\"a/b:c\",\"host\":\"a`) || Host(`b\"}", 422, "invalid_host"},
		{"body too large", "POST", plans, `{"name":"` + strings.Repeat("a", 70<<10) + `"}`, 413, "body_too_large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, code, text := api{t: t, token: a.token}.do(test.method, test.path, test.body)
			if status != test.status || code != test.code {
				t.Errorf("got %d %s, want %d %s", status, strings.TrimSpace(text), test.status, test.code)
			}
		})
	}
	t.Cleanup(func() {
		s.OnlyHas(1, 1, 0)
		stored, err := s.Client.Key(context.WithoutCancel(t.Context()), s.Project, k.ID)
		check.OK(t, err)
		if diff := cmp.Diff(k.Key, stored, cmpopts.IgnoreFields(wire.KeyUsage{}, "AsOf")); diff != "" {
			t.Errorf("the key changed (-before +after):\n%s", diff)
		}
	})
}

func TestContentType(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	if status, code, text := a.do("POST", "/projects", `{"name":"x"}`, "Content-Type", "text/plain"); status != 415 || code != "unsupported_media_type" {
		t.Errorf("got %d %s, want 415 unsupported_media_type", status, text)
	}
	anonymous := api{t: t, token: "none"}
	if status, code, text := anonymous.do("GET", "/projects", ""); status != 401 || code != "unauthenticated" {
		t.Errorf("got %d %s, want 401 unauthenticated", status, text)
	}
}

func TestKeyShownOnce(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	k := s.AnyKey()
	if len(k.Full) != 54 || !strings.HasPrefix(k.Full, "sluice_"+k.Prefix+"_") || k.ID != "key-"+k.Prefix {
		t.Errorf("got a key of %d bytes with the ID %s, want 54 bytes and key-%s", len(k.Full), k.ID, k.Prefix)
	}
	a := newAPI(t)
	for _, path := range []string{"/projects/" + s.Project + "/api-keys", "/projects/" + s.Project + "/api-keys/" + k.ID, "/projects/" + s.Project + "/environments/prod/api-keys"} {
		_, _, text := a.do("GET", path, "")
		if !strings.Contains(text, k.Prefix) || strings.Contains(text, k.Full[16:]) || strings.Contains(text, "secret\"") || strings.Contains(text, "hash") {
			t.Errorf("%s: got %s, want the prefix without the secret", path, text)
		}
	}
}

// TestNamespaceClash creates environments of two projects that need the same namespace.
func TestNamespaceClash(t *testing.T) {
	t.Parallel()
	s := stacktest.New(t, world)
	a := newAPI(t)
	other := s.Project + "-x"
	if status, _, text := a.do("POST", "/projects", `{"name":"`+other+`"}`); status != 201 {
		t.Fatal(text)
	}
	if status, _, text := a.do("POST", "/projects/"+other+"/environments", `{"name":"y"}`); status != 201 {
		t.Fatal(text)
	}
	if status, code, text := a.do("POST", "/projects/"+s.Project+"/environments", `{"name":"x-y"}`); status != 409 || code != "namespace_taken" {
		t.Errorf("got %d %s, want 409 namespace_taken", status, text)
	}
}
