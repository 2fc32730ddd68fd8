package apps

import (
	"crypto/rand"
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func (o *office) token(name string) hook.Token {
	o.Helper()
	token, err := o.cluster.WebhookToken(o.Context(), app.Ref{Namespace: o.namespace(), Name: name})
	if err != nil && !problem.Is(err, problem.NotFound) {
		o.Fatal(err)
	}
	return token
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	path := o.apps("/hello/webhook")
	url := "http://example.com/api/v1/webhook/" + o.namespace() + "/hello"

	disabled := wire.Webhook{URL: url, Issuers: o.cfg.Issuers}
	check.Equal(t, "before", disabled, functest.Read[wire.Webhook](o.as("dev").get(path), 200))
	first := functest.Read[wire.Webhook](o.as("dev").post(path, ""), 200)
	if !first.Enabled || first.URL != url || first.Token == nil || !hook.Token(*first.Token).Valid() {
		t.Fatalf("enabled: %+v", first)
	}
	if got := o.token("hello"); string(got) != *first.Token {
		t.Error("the cluster's token differs from the response")
	}
	check.Equal(t, "status", first, functest.Read[wire.Webhook](o.as("dev").get(path), 200))
	check.Equal(t, "a viewer sees", wire.Webhook{Enabled: true, URL: url, Issuers: o.cfg.Issuers}, functest.Read[wire.Webhook](o.as("vic").get(path), 200))

	second := functest.Read[wire.Webhook](o.as("dev").post(path, "{}"), 200)
	if second.Token == nil || *second.Token == *first.Token || string(o.token("hello")) != *second.Token {
		t.Error("the token did not change when the webhook was enabled again")
	}
	o.as("dev").delete(path).Is(204)
	o.as("dev").delete(path).Is(204)
	if got := o.token("hello"); got != "" {
		t.Error("the disabled webhook has a token")
	}
	check.Equal(t, "after", disabled, functest.Read[wire.Webhook](o.as("dev").get(path), 200))
}

func TestWebhookIsRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	path := o.apps("/hello/webhook")
	for _, name := range []string{"vic", "eve"} {
		o.as(name).post(path, "").Refused(403, "forbidden")
		o.as(name).delete(path).Refused(403, "forbidden")
	}
	o.as("eve").get(path).Refused(403, "forbidden")
	o.as("").get(path).Refused(401, "unauthenticated")
	o.as("").post(path, "").Refused(401, "unauthenticated")
	for _, nobody := range []string{"/nobody/webhook", "/No_Name/webhook"} {
		o.as("dev").get(o.apps(nobody)).Refused(404, "not_found")
		o.as("dev").post(o.apps(nobody), "").Refused(404, "not_found")
		o.as("dev").delete(o.apps(nobody)).Refused(404, "not_found")
	}
	o.as("dev").post(path, `{"token":"mine"}`).Refused(400, "unknown_field")
	o.as("dev").post(path, `[]`).Refused(400, "wrong_type")
	if got := o.token("hello"); got != "" {
		t.Error("the webhook has a token")
	}
}

func TestServiceTokenAtWebhook(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	path := o.apps("/hello/webhook")
	o.as("dev").post(path, "").Is(200)
	before := o.token("hello")
	for _, role := range app.Roles() {
		program := o.with(o.issue("program-"+string(role), role).FullToken)
		got := functest.Read[wire.Webhook](program.get(path), 200)
		if !got.Enabled || got.Token != nil {
			t.Errorf("service token with role %s: got %+v, want an enabled webhook without its token", role, got)
		}
		program.post(path, "").Refused(403, "forbidden")
		program.post(path+"/trusts", `{"provider":"github","claims":{"repository":"org/repo"}}`).Refused(403, "forbidden")
	}
	if o.token("hello") != before {
		t.Error("the webhook's token changed")
	}
	if got := functest.Read[wire.List[wire.Trust]](o.as("dev").get(path+"/trusts"), 200); len(got.Items) > 0 {
		t.Errorf("trusts: got %+v", got.Items)
	}
}

func TestTokenGoesWithItsApp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	o.createApp("other")
	o.as("dev").post(o.apps("/hello/webhook"), "").Is(200)
	o.as("dev").post(o.apps("/other/webhook"), "").Is(200)
	kept := o.token("other")
	if kept == o.token("hello") {
		t.Error("two apps have the same token")
	}
	o.as("dev").delete(o.apps("/hello")).Is(200)
	o.createApp("hello")
	if got := functest.Read[wire.Webhook](o.as("dev").get(o.apps("/hello/webhook")), 200); got.Enabled {
		t.Error("the new app has the previous app's webhook")
	}
	if o.token("other") != kept {
		t.Error("the other app's token changed")
	}
}

// TestEnabledAtOnce tests that the returned token is valid unless a later call replaced it, and
// that a lost token causes a conflict.
func TestEnabledAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	var mu sync.Mutex
	shown := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := o.as("dev").post(o.apps("/hello/webhook"), "")
			if r.Status == http.StatusConflict {
				return
			}
			w := functest.Read[wire.Webhook](r, 200)
			mu.Lock()
			defer mu.Unlock()
			shown[*w.Token] = true
		})
	}
	all.Wait()
	if !shown[string(o.token("hello"))] {
		t.Error("the valid token was not returned to any caller")
	}
}

func TestTokenLeftBehind(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	left, err := hook.NewToken(rand.Reader)
	check.OK(t, err)
	check.OK(t, o.cluster.SetWebhookToken(t.Context(), app.Ref{Namespace: o.namespace(), Name: "hello"}, left))
	o.createApp("hello")
	if got := o.token("hello"); got != "" {
		t.Error("the new app has a token")
	}
	o.as("dev").post(o.apps("/hello/webhook"), "").Is(200)
	kept := o.token("hello")
	o.as("dev").post(o.apps(""), `{"name":"hello","image":"a:1"}`).Refused(409, "already_exists")
	if o.token("hello") != kept {
		t.Error("the failed creation changed the token")
	}
}
