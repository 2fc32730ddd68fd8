package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestWebhookCalls(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/projects/shop/environments/prod/apps/hello"
	enabled := Webhook{Enabled: true, URL: "https://x/api/v1/webhook/shop-prod/hello", Token: "s3cret"}
	full := `{"enabled":true,"url":"https://x/api/v1/webhook/shop-prod/hello","token":"s3cret"}`
	source := wire.GitSource{Repository: "https://git.example.com/hello.git", Branch: "main"}
	tests := []struct {
		name, request, answer string
		call                  func(ctx context.Context, c *Client) (Webhook, error)
		want                  Webhook
	}{
		{"status", "GET " + path + "/webhook ", full, func(ctx context.Context, c *Client) (Webhook, error) {
			return c.Webhook(ctx, "shop", "prod", "hello")
		}, enabled},
		{"status of a viewer", "GET " + path + "/webhook ", `{"enabled":true,"url":"u","token":null}`, func(ctx context.Context, c *Client) (Webhook, error) {
			return c.Webhook(ctx, "shop", "prod", "hello")
		}, Webhook{Enabled: true, URL: "u"}},
		{"enable", "POST " + path + "/webhook ", full, func(ctx context.Context, c *Client) (Webhook, error) {
			return c.EnableWebhook(ctx, "shop", "prod", "hello")
		}, enabled},
		{"disable", "DELETE " + path + "/webhook ", "", func(ctx context.Context, c *Client) (Webhook, error) {
			return Webhook{}, c.DisableWebhook(ctx, "shop", "prod", "hello")
		}, Webhook{}},
		{
			"set the git source", "PUT " + path + `/git-source {"repository":"https://git.example.com/hello.git","branch":"main","path":""}`, `{}`,
			func(ctx context.Context, c *Client) (Webhook, error) {
				_, err := c.SetGitSource(ctx, "shop", "prod", "hello", source)
				return Webhook{}, err
			},
			Webhook{},
		},
		{"remove the git source", "DELETE " + path + "/git-source ", "", func(ctx context.Context, c *Client) (Webhook, error) {
			return Webhook{}, c.RemoveGitSource(ctx, "shop", "prod", "hello")
		}, Webhook{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = r.Method + " " + r.URL.Path + " " + string(body)
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer server.Close()
			hook, err := tt.call(t.Context(), New(server.URL))
			if err != nil || got != tt.request {
				t.Errorf("sent %q, want %q; %v", got, tt.request, err)
			}
			check.Equal(t, "webhook", tt.want, hook)
		})
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", enabled, enabled, enabled, enabled.Token); strings.Contains(printed, "s3cret") {
		t.Errorf("printed %s", printed)
	}
}
