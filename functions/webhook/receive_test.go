package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestImageApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`","commit":"9FCEB02"}`).is(http.StatusAccepted,
		wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2, Commit: "9fceb02"})
	w.ci(hello, `{"image":"`+image2+`"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 3, Image: image2})

	revisions, _ := w.added(hello)
	want := deploy.Revision{
		Number: 2, Image: image2, Digest: digest, Commit: "9fceb02", Trigger: deploy.Webhook, Actor: "webhook",
		Status: deploy.Superseded, DeployedAt: w.clock.Now(),
	}
	if diff := cmp.Diff(want, revisions[1], cmpopts.IgnoreFields(deploy.Revision{}, "Message")); diff != "" {
		t.Errorf("revision 2 (-want +got):\n%s", diff)
	}
	if a := w.stored(hello); a.Revision != 3 || a.Image != image2+"@"+digest {
		t.Errorf("app: got image %s, revision %d", a.Image, a.Revision)
	}
	check.Equal(t, "notifications", map[string]int{app.DeployRequested + " shop-prod.hello": 2}, w.told.seen)
}

func TestGitApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(site, `{"commit":"`+commit+`"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 1, Commit: commit})
	w.ci(site, `{}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 2})
	w.ci(site, `{"image":"","commit":null}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 3})

	for _, image := range []string{image2, "nonsense", "No Image At All"} {
		w.ci(site, `{"image":"`+image+`","commit":"`+commit+`"}`).refused(http.StatusConflict, "git_source_attached")
	}
	revisions, builds := w.added(site)
	if len(revisions) != 0 || len(builds) != 3 {
		t.Fatalf("unexpected number of revisions (%d) or builds (%d)", len(revisions), len(builds))
	}
	want := deploy.Build{
		Number: 1, Commit: commit, Source: *w.stored(site).GitSource, Trigger: deploy.Webhook, Actor: "webhook", Status: deploy.Queued, RequestedAt: w.clock.Now(),
	}
	if diff := cmp.Diff(want, builds[2], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("build 1 (-want +got):\n%s", diff)
	}
	check.Equal(t, "notifications", map[string]int{app.BuildRequested + " shop-prod.site": 3}, w.told.seen)
	if n := w.tags.asked.Load(); n != 0 {
		t.Errorf("registry requests: got %d, want 0", n)
	}
}

func pushOf(ref, after string, deleted bool) string {
	return fmt.Sprintf(`{"ref":%q,"before":"0000000000000000000000000000000000000000","after":%q,"deleted":%v,"repository":{"full_name":"shop/site"},"pusher":{"name":"ada"}}`, ref, after, deleted)
}

func TestProviderEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	push := pushOf("refs/heads/main", commit, false)
	w.provider(site, "push", push).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 1, Commit: commit})
	w.provider(site, "push", push).without("X-GitHub-Event").with("X-Gitea-Event", "push").
		is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 2, Commit: commit})
	w.ci(site, push).with("X-GitHub-Event", "push").is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 3, Commit: commit})
	w.provider(site, "ping", `{"zen":"Half measures are as bad as nothing at all.","hook_id":1}`).is(http.StatusOK, wire.WebhookPong{Status: "pong"})
	w.provider(hello, "ping", `{"zen":"Design for failure.","hook_id":2}`).is(http.StatusOK, wire.WebhookPong{Status: "pong"})
	// The app no longer has a git source, but its provider still sends pushes.
	w.provider(hello, "push", push).refused(http.StatusUnprocessableEntity, "image_required")
	if revisions, builds := w.added(site); len(revisions) != 0 || len(builds) != 3 {
		t.Errorf("got %d revisions and %d builds, want 0 and 3", len(revisions), len(builds))
	}
}

func TestRegistriesOfAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.store.UpdateProject(t.Context(), "shop", func(p app.Project) (app.Project, error) {
		p.Registries = []string{"registry.example.com/shop"}
		return p, nil
	})
	check.OK(w, err)
	before := w.states()
	w.ci(hello, `{"image":"registry.example.com/other/hello:2"}`).refused(http.StatusUnprocessableEntity, problem.RegistryNotAllowed)
	w.ci(site, `{"image":"registry.example.com/other/hello:2"}`).refused(http.StatusConflict, problem.GitSourceAttached)
	w.untouched(before)
	w.ci(hello, `{"image":"`+image2+`"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
}

func (w *world) gitLab(address, event, body string) *call {
	w.Helper()
	return w.call(address, body).with(hook.GitLabTokenHeader, w.token(address)).with("X-Gitlab-Event", event)
}

func TestGitLabEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := func(ref, after string) string {
		return fmt.Sprintf(`{"object_kind":"push","event_name":"push","before":"0000000000000000000000000000000000000000","after":%q,"ref":%q,"checkout_sha":null,"project_id":15}`, after, ref)
	}
	push := body("refs/heads/main", commit)
	before := w.states()
	for _, tt := range []struct{ name, event, body string }{
		{name: "a tag", event: "Tag Push Hook", body: body("refs/tags/v1", commit)},
		{name: "another event with a push's body", event: "Tag Push Hook", body: push},
		{name: "an event with the name of GitHub's", event: "push", body: push},
		{name: "an issue", event: "Issue Hook", body: `{"object_kind":"issue","object_attributes":{"id":301}}`},
		{name: "another branch", event: "Push Hook", body: body("refs/heads/dev", commit)},
		{name: "a deletion", event: "Push Hook", body: body("refs/heads/main", strings.Repeat("0", 40))},
	} {
		got := w.gitLab(site, tt.event, tt.body).send()
		if got.Status != http.StatusAccepted || !strings.HasPrefix(string(got.Body), `{"status":"ignored","reason":"`) {
			t.Errorf("%s: got %d %s", tt.name, got.Status, string(got.Body))
		}
	}
	w.untouched(before)
	w.gitLab(site, "Push Hook", push).with(hook.TokenHeader, w.token(hello)).refused(http.StatusUnauthorized, "invalid_token")
	w.gitLab(site, "Push Hook", push).with(hook.GitLabTokenHeader, w.token(hello)).refused(http.StatusUnauthorized, "invalid_token")
	w.untouched(before)
	w.gitLab(site, "Push Hook", push).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 1, Commit: commit})
	w.gitLab(site, "Push Hook", push).with(hook.TokenHeader, w.token(site)).
		is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 2, Commit: commit})
}

func TestIgnoredEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.states()
	zero := strings.Repeat("0", 40)
	tests := []struct{ name, event, body string }{
		{"another branch", "push", pushOf("refs/heads/dev", commit, false)},
		{"feature/main", "push", pushOf("refs/heads/feature/main", commit, false)},
		{"a tag", "push", pushOf("refs/tags/v1", commit, false)},
		{"a tag called main", "push", pushOf("refs/tags/main", commit, false)},
		{"a deletion", "push", pushOf("refs/heads/main", zero, true)},
		{"a deletion told by zeros", "push", pushOf("refs/heads/main", zero, false)},
		{"an opened issue", "issues", `{"action":"opened"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := w.provider(site, tt.event, tt.body).send()
			if got.Status != http.StatusAccepted || !strings.HasPrefix(string(got.Body), `{"status":"ignored","reason":"`) || strings.Contains(string(got.Body), `"reason":""`) {
				t.Errorf("got %d %s", got.Status, string(got.Body))
			}
		})
	}
	w.untouched(before)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.states()
	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", ``, 400, "malformed_json"},
		{"half an object", `{"image":`, 400, "malformed_json"},
		{"two objects", `{}{}`, 400, "malformed_json"},
		{"a field twice", `{"image":"a:1","image":"b:2"}`, 400, "malformed_json"},
		{"not UTF-8", "{\"image\":\"\xff\"}", 400, "malformed_json"},
		{"null", `null`, 400, "wrong_type"},
		{"a list", `[{"image":"a:1"}]`, 400, "wrong_type"},
		{"a number for image", `{"image":1}`, 400, "wrong_type"},
		{"a list for commit", `{"image":"` + image2 + `","commit":["a"]}`, 400, "wrong_type"},
		{"a field twice in a field that nobody knows", `{"image":"` + image2 + `","ci":{"job":1,"job":2}}`, 400, "malformed_json"},
		{"no image", `{"commit":"` + commit + `"}`, 422, "image_required"},
		{"an empty image", `{"image":""}`, 422, "image_required"},
		{"an image without a tag", `{"image":"registry.example.com/hello"}`, 422, "invalid_image"},
		{"an image with a blank", `{"image":"registry.example.com/hello:2 "}`, 422, "invalid_image"},
		{"a control character", `{"image":"registry.example.com/hello:2\u0000"}`, 422, "invalid_image"},
		{"a long image", `{"image":"` + strings.Repeat("a", 1<<16) + `:1"}`, 422, "invalid_image"},
		{"not a commit", `{"image":"` + image2 + `","commit":"HEAD"}`, 422, "invalid_commit"},
		{"a commit with a line break", `{"image":"` + image2 + `","commit":"9fceb02\n"}`, 422, "invalid_commit"},
		{"a long commit", `{"image":"` + image2 + `","commit":"` + strings.Repeat("a", 65) + `"}`, 422, "invalid_commit"},
		{"a body of 1 MiB and one byte", `{"image":"` + strings.Repeat("a", 1<<20-11) + `"}`, 413, "body_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := w.ci(hello, tt.body).send()
			if got.Status != tt.status || !strings.Contains(string(got.Body), `"code":"`+tt.code+`"`) {
				t.Errorf("got %d %s, want %d %s", got.Status, string(got.Body), tt.status, tt.code)
			}
		})
	}
	w.ci(hello, `{"image":"`+image2+`"}`).with("Content-Type", "application/x-www-form-urlencoded").refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	w.ci(hello, `{"image":"`+image2+`"}`).without("Content-Type").refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
	w.untouched(before)
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`","tag":"2","ci":{"job":[1,null]}}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
	w.ci(site, `{"ref":"refs/heads/x"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "building", Build: 1})
}

func TestLargestBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"image":"` + image2 + `"}`
	w.ci(hello, body+strings.Repeat(" ", 1<<20-len(body))).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ping := func() *call { return w.provider(site, "ping", `{}`) }
	pong := wire.WebhookPong{Status: "pong"}
	for range 30 {
		ping().is(http.StatusOK, pong)
	}
	w.clock.Advance(20 * time.Second)
	for range 30 {
		ping().is(http.StatusOK, pong)
	}
	asked := w.tokens.questions()
	got := ping().send()
	got.Refused(http.StatusTooManyRequests, "rate_limited")
	if after := got.Header.Get("Retry-After"); after != "40" {
		t.Errorf("Retry-After: got %q, want 40", after)
	}
	if n := w.tokens.questions(); n != asked {
		t.Error("a call above the limit causes an API server request")
	}
	w.ci(hello, `{"image":"`+image2+`"}`).is(http.StatusAccepted, wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2})

	w.clock.Advance(40 * time.Second)
	for range 30 {
		ping().is(http.StatusOK, pong)
	}
	got = ping().send()
	got.Refused(http.StatusTooManyRequests, "rate_limited")
	if after := got.Header.Get("Retry-After"); after != "20" {
		t.Errorf("Retry-After: got %q, want 20", after)
	}
}

func TestAppWithoutDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enable("shop-prod/gone")
	w.ci("shop-prod/gone", `{"image":"`+image2+`"}`).refused(http.StatusUnauthorized, "invalid_token")
	w.provider("shop-prod/gone", "ping", `{}`).refused(http.StatusUnauthorized, "invalid_token")
}

func TestTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`"}`).send()
	w.ci(hello, `{"image":1}`).send()
	w.provider(site, "push", pushOf("refs/heads/main", commit, false)).send()
	w.call(hello, `{}`).with(hook.TokenHeader, "wrong"+w.token(hello)).send()
	logged := w.log.String()
	if !strings.Contains(logged, `"webhook called"`) {
		t.Fatalf("unexpected log: %s", logged)
	}
	for _, secret := range []string{w.token(hello), w.token(site)} {
		if strings.Contains(logged, secret) {
			t.Errorf("the log contains a token: %s", logged)
		}
	}
}
