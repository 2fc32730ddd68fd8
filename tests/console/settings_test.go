package console

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/long"
)

func TestWebhook(t *testing.T) {
	t.Parallel()
	adminInEach(t, long.Pick(usual, []window{desk, phone, desk.plain()}), func(s site, v *visitor) {
		s.App("hello")
		v.opens(s.page("apps", "hello", "settings"))
		v.clicks("Enable webhook").sees("Webhook enabled.")
		url, token := s.hook("hello")
		if strings.Contains(v.source(), token) {
			v.t.Error("the page contains the token without a request for it")
		}
		v.sees(url)
		v.clicks("Show token").sees(token)
		v.presses("curl, from any shell").sees("SLUICE_WEBHOOK_TOKEN='" + token + "'")
		v.presses("GitHub Actions: .github/workflows/deploy.yml, with the token as the secret SLUICE_WEBHOOK_TOKEN")
		v.sees("runs-on: ubuntu-latest")
		v.shot("webhook")
		if v.window == desk { // only here, because windows share the clipboard
			const button = "Copy curl, from any shell"
			v.presses(button).sees("Copied")
			v.seesNo("Copied")
			if v.clip() != v.textOf("#snippet-curl") || !v.offers(button) {
				v.t.Errorf("got %q in the clipboard", v.clip())
			}
		} else if v.window.noScript && v.offers("Copy curl, from any shell") {
			v.t.Error("the page has a Copy button without JavaScript")
		}
		if strings.Contains(v.path(), token) {
			v.t.Errorf("the URL contains the token: %s", v.path())
		}
		s.deploys(url, token, "registry.example/echo:v2", 202)

		v.opens(s.page("apps", "hello", "settings"))
		v.seesNo(token)
		v.clicks("Replace token").sees("Replace the webhook token of hello?")
		v.clicks("Replace token").sees("Webhook token replaced.")
		s.deploys(url, token, "registry.example/echo:v3", 401)
		_, token = s.hook("hello")
		s.deploys(url, token, "registry.example/echo:v3", 202)

		v.clicks("Disable webhook").sees("Disable the webhook of hello?")
		v.clicks("Disable webhook").sees("Webhook disabled.")
		s.deploys(url, token, "registry.example/echo:v4", 401)
	})
}

func (s site) hook(app string) (url, token string) {
	s.T.Helper()
	w, err := s.Client.Webhook(s.T.Context(), s.Project, s.Env, app)
	must(s.T, err)
	return w.URL, string(w.Token)
}

func (s site) deploys(url, token, image string, status int) {
	s.T.Helper()
	s.calls(url, token, `{"image":"`+image+`"}`, status)
}

func (s site) calls(url, token, body string, status int) {
	s.T.Helper()
	if a := s.Post(url, []byte(body), "X-Service-Token", token); a.Status != status {
		s.T.Fatalf("webhook: got %d %s, want %d", a.Status, a.Body, status)
	}
}

func TestStaleWebhook(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	s.App("hello")
	v.opens(s.page("apps", "hello", "settings"))
	_, theirs := s.Webhook("hello")
	v.clicks("Enable webhook").sees("No changes were made: the webhook was enabled in the meantime.")
	if _, now := s.hook("hello"); now != theirs {
		t.Error("the other user's token was replaced")
	}
	v.clicks("Replace token")
	_, theirs = s.Webhook("hello")
	v.clicks("Replace token").sees("replaced its token in the meantime.")
	if _, now := s.hook("hello"); now != theirs {
		t.Error("the other user's token was replaced")
	}
}

func TestGitSource(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		s.App("hello")
		v.opens(s.page("apps", "hello", "settings"))
		v.clicks("Connect a git source")
		v.submits("Save git source", "Repository", "ftp://nowhere")
		v.sees("git_source.repository must be a clone URL over https, http or ssh")
		v.submits("Save git source", "Repository", "https://git.example/hello.git")
		v.sees("Git source saved.", "https://git.example/hello.git")
		v.shot("git-source")
		v.clicks("Change git source")
		v.submits("Save git source", "Branch", "release").sees("release")
		v.clicks("Remove").sees("The app keeps running registry.example/echo:v1.")
		v.shot("git-source-remove")
		v.clicks("Remove git source").sees("Git source removed.", "Image app")
		s.Runs("hello", "registry.example/echo:v1")
	})
}
