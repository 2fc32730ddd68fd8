package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTokenExpiry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		flags string
		want  string // expires_at in the request; "" if none
	}{
		{"", ""},
		{"--expires 30d", "2026-04-13T15:09:26Z"},
		{"--expires 2026-03-31", "2026-04-01T00:00:00Z"},
		{"--expires 2026-03-31T10:00:00+02:00", "2026-03-31T10:00:00+02:00"},
		{"--expires -1d", "2026-03-13T15:09:26Z"},
		{"--expires soon", "soon"},
	}
	for _, tt := range tests {
		f := newFake(t, shop())
		r := newPerson(t, f.URL).runs(strings.Fields("token create nightly --role viewer " + tt.flags)...)
		_, body, _ := strings.Cut(f.requests()[0], "tokens ")
		var sent struct {
			ExpiresAt string `json:"expires_at"`
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil || sent.ExpiresAt != tt.want || r.exit != 0 {
			t.Errorf("%q: got request %s, want expires_at %q; %v\n%s", tt.flags, body, tt.want, err, r)
		}
	}
}

func TestTokenErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		exit int
		has  string
	}{
		{"token create nightly", 2, "--role is required: viewer, developer or owner"},
		{"token create nightly --role viewer --expires=", 2, "--expires is empty"},
		{"token create --role viewer", 2, "missing argument NAME"},
		{"token revoke none --yes", 4, `Project shop has no service token with the name or ID "none". (not_found)`},
		{"token revoke token-zz99yy88xx77 --yes", 0, ""},
	}
	for _, tt := range tests {
		f := newFake(t, shop())
		r := newPerson(t, f.URL).runs(strings.Fields(tt.args)...)
		if r.exit != tt.exit || !strings.Contains(r.err, tt.has) {
			t.Errorf("%s: got %swant exit %d and %q", tt.args, r, tt.exit, tt.has)
		}
	}
}

func TestServiceTokenInTheEnvironment(t *testing.T) {
	t.Parallel()
	world := shop()
	world["GET /session"] = ok(serviceJSON)
	world["DELETE /session"] = []answer{{403, `{"code":"forbidden","message":"M."}`}}
	world["GET /projects/shop/tokens"] = []answer{{401, `{"code":"unauthenticated","message":"Authentication is required. Sign in or send a valid service token."}`}}
	f := newFake(t, world)
	p := newPerson(t, "")
	p.variable = map[string]string{"SLUICE_URL": f.URL, "SLUICE_TOKEN": "sluice_st_ab12cd34ef56_x", "SLUICE_PROJECT": "shop"}
	who := p.runs("whoami")
	for _, line := range []string{"Service token:  nightly\n", "Project:        shop\n", "Role:           developer\n", "Expires:        2026-06-12 15:09:26Z\n"} {
		if !strings.Contains(who.out, line) || strings.Contains(who.out, "User") {
			t.Errorf("got %swant %q", who, line)
		}
	}
	if r := p.runs("whoami", "-o", "json"); !strings.Contains(r.out, `"name": "nightly"`) || strings.Contains(r.out, "sluice_st_") {
		t.Error(r)
	}
	if r := p.runs("logout"); r.exit != 1 || r.err != "error: M. (forbidden)\n" {
		t.Error(r)
	}
	if r := p.runs("token", "list"); r.exit != 3 || r.err != "error: Authentication is required. Sign in or send a valid service token. SLUICE_TOKEN is invalid, revoked or expired. (unauthenticated)\n" {
		t.Error(r)
	}
}
