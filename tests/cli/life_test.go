package cli

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

const (
	v1     = "registry.example/echo:v1"
	v2     = "registry.example/echo:v2"
	broken = "registry.example/echo:broken"
)

func site(t *testing.T, project string) *person {
	t.Helper()
	p := admin(t)
	p.does("project create " + project)
	p.does("environment create prod --project " + project)
	p.does("environment create staging --project " + project)
	p.does("context set --project " + project + " --environment prod")
	return p
}

func TestLifeOfAKey(t *testing.T) {
	t.Parallel()
	p := site(t, "keys")
	p.does("app create hello --image " + v1)
	p.does("app create other --image " + v1)
	p.calls("hello", "", http.StatusOK)
	if out := p.does("app gate on hello --wait"); !strings.Contains(out, "engaged") {
		t.Errorf("gate on:\n%s", out)
	}
	p.calls("hello", "", http.StatusUnauthorized)

	p.does("plan create Starter --rate 100 --burst 100 --quota 1000000 --quota-period month")
	key := p.does("key create --plan plan-starter --name checkout --app hello --expires 2099-01-31 --quiet")
	id := "key-" + strings.Split(key, "_")[1]
	p.calls("hello", key, http.StatusOK)
	var named wire.Key
	if p.reads(&named, "key show checkout"); named.ID != id {
		t.Errorf("key named checkout: got %q, want %q", named.ID, id)
	}
	p.does("app gate on other --wait")
	p.calls("other", key, http.StatusUnauthorized)
	p.does("key update " + id + " --all-apps")
	p.calls("other", key, http.StatusOK)

	p.does("key disable " + id)
	p.calls("hello", key, http.StatusUnauthorized)
	p.does("key enable " + id)
	p.calls("hello", key, http.StatusOK)
	p.fails(1, "plan_in_use", "plan delete plan-starter --yes")

	var rotated wire.IssuedKey
	p.reads(&rotated, "key rotate "+id+" --grace 1h")
	p.calls("hello", rotated.FullKey, http.StatusOK)
	p.calls("hello", key, http.StatusOK)

	p.fails(2, "confirmation_required", "key revoke "+id)
	p.does("key revoke " + id + " --yes")
	p.calls("hello", key, http.StatusUnauthorized)
	p.calls("hello", rotated.FullKey, http.StatusUnauthorized)
	p.fails(1, "key_revoked", "key enable "+id)
	usage(t, p, id)

	p.fails(2, "confirmation_required", "app gate off hello")
	p.does("app gate off hello --yes --wait")
	p.calls("hello", "", http.StatusOK)
	p.fails(4, "not_found", "key show key-zzzzzzzz")
}

func usage(t *testing.T, p *person, id string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var u wire.Usage
		p.reads(&u, "key usage "+id)
		if u.Totals.Allowed >= 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("usage: got %+v, want at least 5 allowed", u.Totals)
		}
		<-tick.C
	}
	out := p.does("key usage " + id)
	if !regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d .*█`).MatchString(out) || !strings.Contains(out, "of 1000000 per month") || !strings.Contains(out, "total") {
		t.Errorf("key usage:\n%s", out)
	}
}

// TestDeploys covers update, history, rollback and promotion (promise C8).
func TestDeploys(t *testing.T) {
	t.Parallel()
	p := site(t, "deploys")
	const where = " --project deploys --environment prod"
	p.does("app create hello --wait --image " + v1 + where)
	p.calls("hello", "", http.StatusOK)

	p.does("app update hello --image " + v2 + " --wait" + where)
	if image := p.calls("hello", "", http.StatusOK); image != v2 {
		t.Errorf("image after the update: got %s, want %s", image, v2)
	}
	p.fails(1, "deploy_failed", "app update hello --image "+broken+" --wait --wait-timeout 2m"+where)
	if image := p.calls("hello", "", http.StatusOK); image != v2 {
		t.Errorf("image after a failed deployment: got %s, want %s", image, v2)
	}
	p.does("app rollback hello --revision 1 --wait" + where)
	if image := p.calls("hello", "", http.StatusOK); image != v1 {
		t.Errorf("image after the rollback: got %s, want %s", image, v1)
	}
	p.fails(4, "not_found", "app rollback hello --revision 99 --yes"+where)
	p.fails(2, "confirmation_required", "app delete hello"+where)
	var history wire.List[wire.Deployment]
	p.reads(&history, "app history hello"+where)
	if newest := history.Items[0]; newest.Trigger != "rollback" || newest.Image != v1 || !newest.Current {
		t.Errorf("newest deployment: got %+v", newest)
	}
	if out := p.does("app history hello" + where); !strings.Contains(out, "(current)") || !strings.Contains(out, "failed") {
		t.Errorf("app history:\n%s", out)
	}

	// Promotion to the other environment.
	p.does("app create hello --image " + v2 + " --environment staging")
	p.does("app promote hello --from prod --environment staging --wait")
	var promoted wire.App
	p.reads(&promoted, "app show hello --environment staging")
	if promoted.Image != v1 {
		t.Errorf("image in staging: got %s, want %s", promoted.Image, v1)
	}
}

// TestWebhook checks that the printed curl command runs as printed, while its token is valid.
func TestWebhook(t *testing.T) {
	t.Parallel()
	p := site(t, "hooks")
	const where = " --project hooks --environment prod"
	p.does("app create hello --image " + v1)
	printed := p.does("app webhook enable hello --ci curl" + where)
	snippet := printed[strings.Index(printed, "SLUICE_WEBHOOK_TOKEN="):]
	deploy := func(snippet string) result { t.Helper(); return p.run("", "sh", "-c", snippet) }
	if r := deploy(snippet); r.exit != 0 || !strings.Contains(r.out, `"deployed"`) {
		t.Fatalf("printed command: exit %d\n%s%s", r.exit, r.out, r.err)
	}
	if r := deploy(strings.Replace(snippet, v1, v2, 1)); r.exit != 0 {
		t.Fatalf("with another image: %s%s", r.out, r.err)
	}
	if r := deploy(strings.Replace(snippet, v1, broken, 1)); r.exit == 0 || !strings.Contains(r.out, `"failed"`) {
		t.Errorf("with a broken image: exit %d, %s", r.exit, r.out)
	}
	if r := deploy(strings.Replace(snippet, v1, v2, 1)); r.exit != 0 {
		t.Fatalf("with another image again: %s%s", r.out, r.err)
	}
	var history wire.List[wire.Deployment]
	p.reads(&history, "app history hello --limit 1")
	if newest := history.Items[0]; newest.Trigger != "webhook" || newest.Image != v2 {
		t.Errorf("newest deployment: got %+v", newest)
	}

	var status wire.Webhook
	p.reads(&status, "app webhook status hello"+where)
	if status.Token == nil || !strings.Contains(snippet, *status.Token) {
		t.Error("webhook status: got another token than in the snippet")
	}
	again := p.does("app webhook enable hello --ci curl" + where)
	if r := deploy(snippet); r.exit == 0 || !strings.Contains(r.out, "invalid_token") {
		t.Errorf("with the previous token: exit %d, %s", r.exit, r.out)
	}
	snippet = again[strings.Index(again, "SLUICE_WEBHOOK_TOKEN="):]

	// The webhook of a git app rejects images.
	p.does("app git set hello --repository https://git.example.com/shop/hello --branch main")
	if r := deploy(snippet); r.exit == 0 || !strings.Contains(r.out, "git_source_attached") {
		t.Errorf("an image for a git app: exit %d, %s", r.exit, r.out)
	}
	p.does("app git remove hello" + where)
	if r := deploy(snippet); r.exit != 0 {
		t.Errorf("after detaching: %s%s", r.out, r.err)
	}

	p.does("app webhook disable hello" + where)
	if r := deploy(snippet); r.exit == 0 || !strings.Contains(r.out, "invalid_token") {
		t.Errorf("after disabling: exit %d, %s", r.exit, r.out)
	}
}

func TestPeople(t *testing.T) {
	t.Parallel()
	p := site(t, "people")
	if r := p.run("correct horse battery", program, "admin", "create-user", "peter", "--password-stdin"); r.exit != 0 {
		t.Fatal(r.err)
	}
	peter := newPerson(t)
	peter.signsIn("peter", "correct horse battery")
	peter.fails(1, "forbidden", "context set --project people --environment prod")
	peter.fails(1, "forbidden", "plan list --project people --environment prod")
	p.does("member set peter viewer")
	peter.does("context set --project people --environment prod")
	peter.does("plan list")
	peter.fails(1, "forbidden", "plan create Gold --rate 1 --burst 1")
	p.does("member set peter developer")
	peter.does("plan create Gold --rate 1 --burst 1")
	p.does("member remove peter --yes")
	peter.fails(1, "forbidden", "plan list")

	if out := peter.does("whoami"); !strings.Contains(out, "peter") {
		t.Errorf("whoami:\n%s", out)
	}
	elsewhere := newPerson(t) // has a copy of the session, which logout ends too
	elsewhere.run("", "cp", "-r", peter.home+"/.config", elsewhere.home)
	elsewhere.does("whoami")
	peter.does("logout")
	peter.fails(3, "unauthenticated", "whoami")
	elsewhere.fails(3, "unauthenticated", "whoami")

	p.does("admin grant-admin peter")
	peter.signsIn("peter", "correct horse battery")
	peter.does("admin list-users")
	p.does("admin revoke-admin peter")
	peter.fails(1, "forbidden", "admin list-users")
	p.does("admin end-sessions peter")
	peter.fails(3, "unauthenticated", "whoami")
	peter.signsIn("peter", "correct horse battery")
	p.does("member set peter owner")
	peter.does("token create left --role viewer")
	if out := p.does("admin deactivate-user peter"); !strings.Contains(out, "left") || !strings.Contains(out, "people") {
		t.Errorf("deactivate-user:\n%s", out)
	}
	peter.fails(3, "unauthenticated", "whoami")
	if r := peter.run("correct horse battery\n", program, "login", world.Info().BaseURL, "--username", "peter", "--password-stdin"); !strings.HasSuffix(r.err, "(invalid_credentials)\n") {
		t.Errorf("sign-in of a deactivated user: got %d %s", r.exit, r.err)
	}
	if out := p.does("admin list-users"); !strings.Contains(out, "deactivated") {
		t.Errorf("list-users:\n%s", out)
	}
	p.does("admin activate-user peter")
	peter.signsIn("peter", "correct horse battery")
	p.does("admin remove-user peter --confirm peter")
	peter.fails(3, "unauthenticated", "whoami")
	if out := p.does("member list"); strings.Contains(out, "peter") {
		t.Errorf("member list:\n%s", out)
	}

	p.fails(1, "not_empty", "environment delete prod --yes")
	p.does("plan delete plan-gold --confirm plan-gold")
	p.does("environment delete prod --yes")
	p.does("environment delete staging --yes")
	p.does("project delete people --yes")
	p.fails(4, "not_found", "project show people")
}

// TestServiceToken rotates a key with a service token from the environment, without a context.
func TestServiceToken(t *testing.T) {
	t.Parallel()
	p := site(t, "nightly")
	p.does("plan create Starter --rate 100 --burst 100")
	p.does("app create hello --image " + v1)
	p.does("app gate on hello --wait")
	old := p.does("key create batch --plan plan-starter --quiet")
	token := p.does("token create rotation --role developer --expires 30d --quiet")
	p.fails(1, "already_exists", "token create rotation --role viewer")
	p.fails(1, "invalid_expiry", "token create long --role viewer --expires 400d")

	job := newPerson(t)
	job.env = []string{"SLUICE_URL=" + world.Info().BaseURL, "SLUICE_TOKEN=" + token, "SLUICE_PROJECT=nightly", "SLUICE_ENVIRONMENT=prod"}
	if who := job.does("whoami"); !strings.Contains(who, "rotation") || !strings.Contains(who, "developer") {
		t.Errorf("whoami:\n%s", who)
	}
	key := job.does("key rotate batch --grace 1h --quiet")
	job.calls("hello", key, http.StatusOK)
	job.calls("hello", old, http.StatusOK)
	job.fails(1, "forbidden", "token create more --role viewer")
	job.fails(1, "forbidden", "member set admin viewer")
	job.fails(1, "forbidden", "project create mine")
	job.fails(1, "forbidden", "app webhook enable hello")
	job.fails(1, "forbidden", "plan list --project keys --environment prod")

	var tokens wire.List[wire.Token]
	if p.reads(&tokens, "token list"); len(tokens.Items) != 1 || tokens.Items[0].LastUsedAt == nil {
		t.Errorf("tokens: got %+v, want one that was used", tokens.Items)
	}
	var records wire.List[wire.AuditRecord]
	if p.reads(&records, "audit --actor token:rotation"); len(records.Items) != 1 || records.Items[0].Action != "key.rotate" || records.Items[0].Actor.Kind != "token" {
		t.Errorf("audit records: got %+v", records.Items)
	}
	p.fails(2, "confirmation_required", "token revoke rotation")
	if left := p.does("token revoke rotation --yes"); !strings.Contains(left, "batch") {
		t.Errorf("token revoke: got no rotated key in\n%s", left)
	}
	job.fails(3, "unauthenticated", "whoami")
	p.fails(4, "not_found", "token revoke rotation --yes")
	p.does("token create rotation --role viewer --quiet")
}
