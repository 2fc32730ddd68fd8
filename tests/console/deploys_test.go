package console

import (
	"testing"
)

func (s site) deploy(app, image string) {
	s.T.Helper()
	_, err := s.Client.Deploy(s.T.Context(), s.Project, s.Env, app, image)
	must(s.T, err)
}

func TestDeploys(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		s.App("hello")
		s.Settled("hello", 1, "live")
		again := func() { // without JavaScript, the page does not refresh itself
			if v.window.noScript {
				v.opens(s.page("apps", "hello", "deploys"))
			}
		}
		v.opens(s.page("apps", "hello", "deploys"))
		v.clicks("Deploy an image")
		v.submits("Deploy", "Image", "not an image").sees("image must be a full image reference with a tag or a digest.")
		v.submits("Deploy", "Image", "registry.example/echo:broken")
		v.sees("Deployment saved. The rollout is in progress.", "2 broken Current")
		s.Settled("hello", 2, "failed")
		again()
		v.sees("Failed")
		v.presses("Details of revision 2").sees("registry.example/echo:broken")
		v.shot("deploys-failed")
		v.clicks("Status").sees("Revision 2 failed.", "Revision 1 is still live.")
		v.shot("app-failed")
		v.clicks("Deployments")

		v.clicks("Roll back to revision 1")
		v.sees("Roll hello back to revision 1?", "registry.example/echo:broken", "registry.example/echo:v1")
		v.shot("rollback")
		v.clicks("Roll back to revision 1").sees("Rollback saved. The rollout is in progress.", "rollback to revision 1")
		s.Settled("hello", 3, "live")
		again()
		v.seesNo("Rolling out")
		v.shot("deploys")
		if n := len(s.History("hello")); n != 3 {
			v.t.Errorf("got %d revisions, want 3", n)
		}
	})
}

func TestStaleDeploy(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	s.App("hello")
	s.Settled("hello", 1, "live")
	s.deploy("hello", "registry.example/echo:v2")
	v.opens(s.page("apps", "hello", "deploys", "1", "rollback")).sees("Revision 2 is current.")
	s.deploy("hello", "registry.example/echo:v3")
	v.clicks("Roll back to revision 1").sees("No changes were made: revision 3 was deployed in the meantime.")
	v.shot("rollback-stale")
	if n := len(s.History("hello")); n != 3 {
		t.Errorf("got %d revisions, want 3", n)
	}
	v.clicks("Roll back to revision 1").sees("Rollback saved. The rollout is in progress.")
}

func TestPromote(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk.plain())
	s.App("hello")
	v.opens(s.page("apps", "hello", "promote")).sees("Nothing to promote")
	staging := site{s.In("staging")}
	staging.App("hello")
	staging.deploy("hello", "registry.example/echo:v7")
	staging.Settled("hello", 2, "live")
	v.opens(s.page("apps", "hello", "deploys"))
	v.clicks("Promote from…", "Promote from staging").sees("Promote hello from staging to prod?")
	v.shot("promote")
	v.clicks("Promote to prod").sees("Promotion saved. The rollout is in progress.")
	s.Runs("hello", "registry.example/echo:v7")
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	v.opens(s.page("new-app") + "?kind=git")
	v.submits("Create app", "Name", "built", "Repository", "https://git.example/built.git", "Branch", "main")
	url, token := s.Webhook("built")
	s.calls(url, token, `{"commit":"`+oneCommit+`"}`, 202)
	v.clicks("Builds").sees("0123456789ab", "Succeeded")
	s.Settled("built", 2, "live") // the form is rejected if a revision is deployed after it was loaded
	v.shot("builds")
	v.clicks("Build now")
	v.submits("Build now", "Commit", "no commit").sees("commit must be a git commit hash")
	v.submits("Build now", "Commit", "fedcba98").sees("Build requested. This page shows its progress.", "fedcba98")
	v.clicks("Status").sees("Live")
	v.shot("app-built")
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		s.App("hello")
		v.opens(s.page("apps", "hello", "deploys"))
		v.clicks("Show webhook deliveries").sees("Webhook disabled")
		v.clicks("Enable webhook").sees("Webhook enabled.")
		v.clicks("Show webhook deliveries").sees("No deliveries")
		url, token := s.Webhook("hello")
		s.Post(url, []byte(`{"image":"registry.example/echo:v2"}`), "X-Service-Token", token, "X-GitHub-Delivery", "72d3162e-cc78")
		s.Post(url, []byte(`{}`), "X-Service-Token", token)
		for range 12 {
			s.Post(url, []byte(`{}`), "X-Service-Token", "wrong")
		}
		s.Deliveries("hello", 3)
		v.clicks("Send a test").sees("Test succeeded. The webhook responded to the ping.")
		s.Deliveries("hello", 4)
		v.clicks("Back to deliveries").sees("Ping succeeded", "Rejected with image_required", "without a valid token")
		v.shot("deliveries")
		v.clicks("revision 2").sees("Deployment history")
	})
}
