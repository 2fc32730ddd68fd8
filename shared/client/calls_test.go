package client

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func drain[T any](items []T, err error) error {
	_ = items
	return err
}

// TestCalls checks the method, path and body of every call (promise A1).
func TestCalls(t *testing.T) {
	t.Parallel()
	ptr := func(s string) *string { return &s }
	rate, burst := 1.5, int64(2)
	const env = "/api/v1/projects/shop/environments/prod"
	tests := []struct {
		name               string
		call               func(ctx context.Context, c *Client) error
		method, path, body string
	}{
		{"SignOut", func(ctx context.Context, c *Client) error { return c.SignOut(ctx) }, "DELETE", "/api/v1/session", ""},
		{"Audit", func(ctx context.Context, c *Client) error {
			return drain(Collect(c.Audit(ctx, "shop", AuditQuery{Actor: "ada", To: time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)})))
		}, "GET", "/api/v1/projects/shop/audit?actor=ada&to=2026-03-14T00%3A00%3A00Z", ""},
		{"InstallationAudit", func(ctx context.Context, c *Client) error {
			return drain(Collect(c.InstallationAudit(ctx, AuditQuery{})))
		}, "GET", "/api/v1/audit", ""},
		{"AuditPage", func(ctx context.Context, c *Client) error {
			_, err := c.AuditPage(ctx, "shop", AuditQuery{Action: "key.revoke"}, Page{Size: 5, Token: "t"})
			return err
		}, "GET", "/api/v1/projects/shop/audit?action=key.revoke&page_size=5&page_token=t", ""},
		{"InstallationAuditPage", func(ctx context.Context, c *Client) error {
			_, err := c.InstallationAuditPage(ctx, AuditQuery{Resource: "users/ada"}, Page{Size: 5})
			return err
		}, "GET", "/api/v1/audit?page_size=5&resource=users%2Fada", ""},
		{"WhoAmI", func(ctx context.Context, c *Client) error { _, err := c.WhoAmI(ctx); return err }, "GET", "/api/v1/session", ""},
		{"Users", func(ctx context.Context, c *Client) error { return drain(Collect(c.Users(ctx))) }, "GET", "/api/v1/users", ""},
		{
			"CreateUser", func(ctx context.Context, c *Client) error { _, err := c.CreateUser(ctx, "ada", "pw", true); return err },
			"POST", "/api/v1/users", `{"username":"ada","password":"pw","admin":true}`,
		},
		{
			"ChangePassword", func(ctx context.Context, c *Client) error { return c.ChangePassword(ctx, "ada", "old", "new") },
			"PUT", "/api/v1/users/ada/password", `{"current_password":"old","password":"new"}`,
		},
		{
			"ResetPassword", func(ctx context.Context, c *Client) error { return c.ResetPassword(ctx, "ada", "new") },
			"PUT", "/api/v1/users/ada/password", `{"password":"new"}`,
		},
		{"EndOwnSessions", func(ctx context.Context, c *Client) error { _, err := c.EndOwnSessions(ctx); return err }, "DELETE", "/api/v1/session/all", ""},
		{
			"UpdateUser", func(ctx context.Context, c *Client) error {
				_, err := c.UpdateUser(ctx, "ada", wire.UpdateUser{Admin: wire.Some(false)})
				return err
			},
			"PATCH", "/api/v1/users/ada", `{"admin":false}`,
		},
		{"RemoveUser", func(ctx context.Context, c *Client) error { _, err := c.RemoveUser(ctx, "ada"); return err }, "DELETE", "/api/v1/users/ada", ""},
		{"EndSessions", func(ctx context.Context, c *Client) error { _, err := c.EndSessions(ctx, "ada"); return err }, "DELETE", "/api/v1/users/ada/sessions", ""},
		{"User", func(ctx context.Context, c *Client) error { _, err := c.User(ctx, "ada"); return err }, "GET", "/api/v1/users/ada", ""},
		{"Member", func(ctx context.Context, c *Client) error { _, err := c.Member(ctx, "shop", "ada"); return err }, "GET", "/api/v1/projects/shop/members/ada", ""},
		{"ServiceToken", func(ctx context.Context, c *Client) error {
			_, err := c.ServiceToken(ctx, "shop", "token-1")
			return err
		}, "GET", "/api/v1/projects/shop/tokens/token-1", ""},
		{"Environment", func(ctx context.Context, c *Client) error { _, err := c.Environment(ctx, "shop", "prod"); return err }, "GET", env, ""},
		{"Trust", func(ctx context.Context, c *Client) error {
			_, err := c.Trust(ctx, "shop", "prod", "hello", "trust-1")
			return err
		}, "GET", env + "/apps/hello/webhook/trusts/trust-1", ""},
		{"Deployment", func(ctx context.Context, c *Client) error {
			_, err := c.Deployment(ctx, "shop", "prod", "hello", 7)
			return err
		}, "GET", env + "/apps/hello/deployments/7", ""},
		{"UpdateApp", func(ctx context.Context, c *Client) error {
			_, err := c.UpdateApp(ctx, "shop", "prod", "hello", wire.UpdateApp{Host: ptr("a.example.com")})
			return err
		}, "PATCH", env + "/apps/hello", `{"host":"a.example.com"}`},
		{"Projects", func(ctx context.Context, c *Client) error { return drain(Collect(c.Projects(ctx))) }, "GET", "/api/v1/projects", ""},
		{
			"CreateProject", func(ctx context.Context, c *Client) error { _, err := c.CreateProject(ctx, "shop"); return err },
			"POST", "/api/v1/projects", `{"name":"shop"}`,
		},
		{"Project", func(ctx context.Context, c *Client) error { _, err := c.Project(ctx, "shop"); return err }, "GET", "/api/v1/projects/shop", ""},
		{
			"UpdateProject", func(ctx context.Context, c *Client) error {
				_, err := c.UpdateProject(ctx, "shop", wire.UpdateProject{LeakPolicy: wire.Some("revoke")})
				return err
			},
			"PATCH", "/api/v1/projects/shop", `{"leak_policy":"revoke"}`,
		},
		{"DeleteProject", func(ctx context.Context, c *Client) error { return c.DeleteProject(ctx, "shop") }, "DELETE", "/api/v1/projects/shop", ""},
		{
			"Members", func(ctx context.Context, c *Client) error { return drain(Collect(c.Members(ctx, "shop"))) },
			"GET", "/api/v1/projects/shop/members", "",
		},
		{"SetMembers", func(ctx context.Context, c *Client) error {
			return c.SetMembers(ctx, "shop", []wire.Member{{Username: "ada", Role: "owner"}})
		}, "PUT", "/api/v1/projects/shop/members", `{"members":[{"username":"ada","role":"owner"}]}`},
		{
			"RemoveMember", func(ctx context.Context, c *Client) error { return c.RemoveMember(ctx, "shop", "ada") },
			"DELETE", "/api/v1/projects/shop/members/ada", "",
		},
		{
			"Environments", func(ctx context.Context, c *Client) error { return drain(Collect(c.Environments(ctx, "shop"))) },
			"GET", "/api/v1/projects/shop/environments", "",
		},
		{
			"CreateEnvironment", func(ctx context.Context, c *Client) error {
				_, err := c.CreateEnvironment(ctx, "shop", "prod")
				return err
			},
			"POST", "/api/v1/projects/shop/environments", `{"name":"prod"}`,
		},
		{"DeleteEnvironment", func(ctx context.Context, c *Client) error { return c.DeleteEnvironment(ctx, "shop", "prod") }, "DELETE", env, ""},
		{"Plans", func(ctx context.Context, c *Client) error { return drain(Collect(c.Plans(ctx, "shop", "prod"))) }, "GET", env + "/plans", ""},
		{"CreatePlan", func(ctx context.Context, c *Client) error {
			_, err := c.CreatePlan(ctx, "shop", "prod", wire.CreatePlan{Name: ptr("Gold"), Rate: &rate, Burst: &burst})
			return err
		}, "POST", env + "/plans", `{"name":"Gold","rate":1.5,"burst":2}`},
		{
			"Plan", func(ctx context.Context, c *Client) error {
				_, err := c.Plan(ctx, "shop", "prod", "plan-gold")
				return err
			},
			"GET", env + "/plans/plan-gold", "",
		},
		{"UpdatePlan", func(ctx context.Context, c *Client) error {
			_, err := c.UpdatePlan(ctx, "shop", "prod", "plan-gold", wire.UpdatePlan{Quota: wire.Null[int64](), Burst: wire.Some(int64(3))})
			return err
		}, "PATCH", env + "/plans/plan-gold", `{"burst":3,"quota":null}`},
		{"ForecastPlan", func(ctx context.Context, c *Client) error {
			u := wire.UpdatePlan{Name: wire.Some("Gold"), Quota: wire.Some(int64(3)), QuotaPeriod: wire.Some("day")}
			_, err := c.ForecastPlan(ctx, "shop", "prod", "plan-gold", u)
			return err
		}, "POST", env + "/plans/plan-gold/forecast", `{"quota":3,"quota_period":"day"}`},
		{"ForecastGate", func(ctx context.Context, c *Client) error {
			_, err := c.ForecastGate(ctx, "shop", "prod", "hello")
			return err
		}, "GET", env + "/apps/hello/gate/forecast", ""},
		{
			"DeletePlan", func(ctx context.Context, c *Client) error { return c.DeletePlan(ctx, "shop", "prod", "plan-gold") },
			"DELETE", env + "/plans/plan-gold", "",
		},
		{
			"Keys", func(ctx context.Context, c *Client) error { return drain(Collect(c.Keys(ctx, "shop", KeyFilter{}))) },
			"GET", "/api/v1/projects/shop/api-keys", "",
		},
		{"BulkKeys", func(ctx context.Context, c *Client) error {
			_, err := c.BulkKeys(ctx, "shop", "prod", []string{"key-1"}, wire.KeyChange{ExpiresAt: wire.Null[string]()}, true)
			return err
		}, "POST", env + "/api-keys/bulk", `{"keys":["key-1"],"change":{"expires_at":null},"dry_run":true}`},
		{
			"ExportUsage", func(ctx context.Context, c *Client) error {
				return c.ExportUsage(ctx, "shop", "prod", "2026-03-01", "", "day", io.Discard)
			},
			"GET", env + "/usage.csv?from=2026-03-01&per=day", "",
		},
		{
			"Keys of a filter", func(ctx context.Context, c *Client) error {
				f := KeyFilter{Environment: "prod", Status: "active", App: "hello", Search: "a b", Sort: wire.SortLastSeen}
				return drain(Collect(c.Keys(ctx, "shop", f)))
			},
			"GET", "/api/v1/projects/shop/api-keys?app=hello&environment=prod&search=a+b&sort=last_seen&status=active", "",
		},
		{
			"FindKey", func(ctx context.Context, c *Client) error {
				_, err := c.FindKey(ctx, "shop", "sluice_ab12cd34_x")
				return err
			},
			"POST", "/api/v1/projects/shop/api-keys/find", `{"key":"sluice_ab12cd34_x"}`,
		},
		{
			"ReportLeak", func(ctx context.Context, c *Client) error {
				_, err := c.ReportLeak(ctx, "sluice_ab12cd34_x", "https://git.example.com/x")
				return err
			},
			"POST", "/api/v1/leaks/report", `{"key":"sluice_ab12cd34_x","url":"https://git.example.com/x"}`,
		},
		{
			"EnvironmentUsage", func(ctx context.Context, c *Client) error {
				_, err := c.EnvironmentUsage(ctx, "shop", "prod", "2026-03-08", "")
				return err
			},
			"GET", env + "/usage?from=2026-03-08", "",
		},
		{"KeysPage", func(ctx context.Context, c *Client) error {
			_, err := c.KeysPage(ctx, "shop", KeyFilter{Environment: "prod", Plan: "plan-gold"}, Page{Size: 5, Token: "t"})
			return err
		}, "GET", "/api/v1/projects/shop/api-keys?environment=prod&page_size=5&page_token=t&plan=plan-gold", ""},
		{"CreateKey", func(ctx context.Context, c *Client) error {
			_, _, err := c.CreateKey(ctx, "shop", "prod", wire.CreateKey{Plan: ptr("plan-gold"), Apps: []string{"hello"}})
			return err
		}, "POST", env + "/api-keys", `{"plan":"plan-gold","apps":["hello"]}`},
		{
			"Key", func(ctx context.Context, c *Client) error { _, err := c.Key(ctx, "shop", "key-ab12cd34"); return err },
			"GET", "/api/v1/projects/shop/api-keys/key-ab12cd34", "",
		},
		{
			"DisableKey", func(ctx context.Context, c *Client) error {
				_, err := c.DisableKey(ctx, "shop", "key-ab12cd34")
				return err
			},
			"PATCH", "/api/v1/projects/shop/api-keys/key-ab12cd34", `{"status":"disabled"}`,
		},
		{
			"EnableKey", func(ctx context.Context, c *Client) error {
				_, err := c.EnableKey(ctx, "shop", "key-ab12cd34")
				return err
			},
			"PATCH", "/api/v1/projects/shop/api-keys/key-ab12cd34", `{"status":"active"}`,
		},
		{
			"RevokeKey", func(ctx context.Context, c *Client) error {
				_, err := c.RevokeKey(ctx, "shop", "key-ab12cd34")
				return err
			},
			"POST", "/api/v1/projects/shop/api-keys/key-ab12cd34/revoke", "",
		},
		{"ReleaseQuota", func(ctx context.Context, c *Client) error {
			_, err := c.ReleaseQuota(ctx, "shop", "key-ab12cd34")
			return err
		}, "POST", "/api/v1/projects/shop/api-keys/key-ab12cd34/quota/release", ""},
		{"RotateKey", func(ctx context.Context, c *Client) error {
			_, _, err := c.RotateKey(ctx, "shop", "key-ab12cd34", 90*time.Minute)
			return err
		}, "POST", "/api/v1/projects/shop/api-keys/key-ab12cd34/rotate", `{"grace":"1h30m0s"}`},
		{"Apps", func(ctx context.Context, c *Client) error { return drain(Collect(c.Apps(ctx, "shop", "prod"))) }, "GET", env + "/apps", ""},
		{"CreateApp", func(ctx context.Context, c *Client) error {
			_, err := c.CreateApp(ctx, "shop", "prod", wire.CreateApp{Name: ptr("hello"), Image: ptr("example.com/hello:1")})
			return err
		}, "POST", env + "/apps", `{"name":"hello","image":"example.com/hello:1"}`},
		{"App", func(ctx context.Context, c *Client) error { _, err := c.App(ctx, "shop", "prod", "hello"); return err }, "GET", env + "/apps/hello", ""},
		{"DeleteApp", func(ctx context.Context, c *Client) error {
			_, err := c.DeleteApp(ctx, "shop", "prod", "hello")
			return err
		}, "DELETE", env + "/apps/hello", ""},
		{"RequireAPIKey", func(ctx context.Context, c *Client) error {
			_, err := c.RequireAPIKey(ctx, "shop", "prod", "hello", false)
			return err
		}, "PATCH", env + "/apps/hello", `{"require_api_key":false}`},
		{"SetPreflight", func(ctx context.Context, c *Client) error {
			_, err := c.SetPreflight(ctx, "shop", "prod", "hello", "refuse")
			return err
		}, "PATCH", env + "/apps/hello", `{"preflight":"refuse"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := &server{status: 200, body: `{}`}
			check.OK(t, tt.call(t.Context(), serve(t, srv)))
			got := srv.seen[0]
			if got.Query != "" {
				got.Path += "?" + got.Query
			}
			want := seen{Method: tt.method, Path: tt.path, Query: got.Query, Body: tt.body, Authorization: "Bearer tok"}
			if tt.body != "" {
				want.ContentType = "application/json"
			}
			if diff := cmp.Diff(want, got); diff != "" || len(srv.seen) != 1 {
				t.Errorf("got %d requests, want 1; the first (-want +got):\n%s", len(srv.seen), diff)
			}
		})
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	srv := &server{status: 200, body: `{"token":"t1","csrf_token":"c","expires_at":"2026-03-01T12:00:00Z","user":{"username":"ada","admin":true}}`}
	c := serve(t, srv)
	got, err := c.SignIn(t.Context(), "ada", "pw")
	check.OK(t, err)
	want := Session{Token: "t1", ExpiresAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), User: wire.Caller{Username: "ada", Admin: true}}
	check.Equal(t, "session", want, got)
	if diff := cmp.Diff(seen{
		Method: "POST", Path: "/api/v1/session", Body: `{"username":"ada","password":"pw"}`, ContentType: "application/json",
	}, srv.seen[0]); diff != "" {
		t.Errorf("sign-in request (-want +got):\n%s", diff)
	}
	if _, err := c.WithToken(got.Token).WhoAmI(t.Context()); err != nil || srv.seen[1].Authorization != "Bearer t1" {
		t.Errorf("Authorization of the new client: got %q, %v", srv.seen[1].Authorization, err)
	}
	if _, err := c.WhoAmI(t.Context()); err != nil || srv.seen[2].Authorization != "Bearer tok" {
		t.Errorf("Authorization of the old client: got %q, %v", srv.seen[2].Authorization, err)
	}
}

func TestFullKeyIsReturnedSeparately(t *testing.T) {
	t.Parallel()
	srv := &server{status: 201, body: `{"id":"key-ab12cd34","prefix":"ab12cd34","apps":[],"key":"sluice_ab12cd34_x"}`}
	key, full, err := serve(t, srv).CreateKey(t.Context(), "shop", "prod", wire.CreateKey{})
	if err != nil || key.ID != "key-ab12cd34" || string(full) != "sluice_ab12cd34_x" {
		t.Errorf("got %+v, %q, %v", key, string(full), err)
	}
}
