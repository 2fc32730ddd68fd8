package attack

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// withSum gives a key the checksum that makes it well-formed.
func withSum(body string) string {
	const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	n := crc32.ChecksumIEEE([]byte(body))
	sum := make([]byte, 6)
	for i := len(sum) - 1; i >= 0; i-- {
		sum[i] = base62[n%62]
		n /= 62
	}
	return body + string(sum)
}

// TestKeyGuessing: somebody who knows a prefix, and most of a secret.
func TestKeyGuessing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "guesses of a key whose prefix is known: random secrets, each single character changed, pieces, other prefixes, all with a right checksum",
		"every one the same 401, byte for byte; the real key is neither locked out nor slowed down")
	s, k := gated(t)
	body := k.Full[:apikey.Length-6]
	if withSum(body) != k.Full {
		t.Fatal("the test's own checksum is wrong")
	}
	guesses := []string{withSum(strings.Replace(body, k.Prefix, "zzzzzzzz", 1)), k.Full[:53], k.Full + "0", withSum(body[:46] + "0")}
	for i := 16; i < len(body); i++ {
		for _, c := range "0Zz" {
			if body[i] != byte(c) {
				guesses = append(guesses, withSum(body[:i]+string(c)+body[i+1:]))
			}
		}
	}
	for range 2000 {
		random, err := apikey.NewSecret(apikey.Random(), apikey.Prefix(k.Prefix))
		check.OK(t, err)
		guesses = append(guesses, string(random))
	}
	none := s.Call("hello").Gets(http.StatusUnauthorized, "invalid_key")
	forget(none)
	var g errgroup.Group
	g.SetLimit(8)
	var good atomic.Int64
	for _, guess := range guesses {
		g.Go(func() error {
			a := s.Call("hello").Header("X-API-Key", guess).Send()
			forget(a)
			if diff := cmp.Diff(none, a); diff != "" {
				return fmt.Errorf("a guess differs from no key (-none +guess):\n%s", diff)
			}
			good.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	s.Call("hello").Key(k).Gets(http.StatusOK)
	row.Measured(fmt.Sprintf("%d guesses", good.Load()))
}

// forget takes out what differs with every answer.
func forget(a stacktest.Answer) {
	a.Header.Del("Date")
	a.Header.Del("X-Request-Id")
}

// TestNamespaces: two names that make one namespace, and keys of the one at the other.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "namespace confusion: `a-b`+`c` against `a`+`b-c`; keys, webhooks and checks across the two",
		"the second environment is 409 `namespace_taken`, whoever asks; nothing of the first is reachable through the second's names")
	s := stacktest.New(t, world)
	if _, err := s.Client.CreateProject(t.Context(), s.Project+"-x"); err != nil {
		t.Fatal(err)
	}
	admin := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	in := func(project, env string) stacktest.Answer {
		return call(t, request{method: http.MethodPost, path: "/api/v1/projects/" + project + "/environments", body: `{"name":"` + env + `"}`, token: admin})
	}
	if a := in(s.Project, "x-y"); a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := in(s.Project+"-x", "y"); a.Status != http.StatusConflict || a.Code() != "namespace_taken" {
		t.Errorf("the second: %d %s", a.Status, a.Body)
	}
	first := *s
	first.Env = "x-y"
	first.GatedApp("hello")
	k := first.AnyKey()
	first.Opens("hello", k)
	n := 2
	for _, path := range []string{
		"/environments/y/apps/hello", "/environments/y/apps", "/environments/y/plans", "/environments/y/api-keys", "/api-keys/" + k.ID,
		"/api-keys/" + k.ID + "/usage", "/environments/y/apps/hello/webhook", "/environments/y/apps/hello/deployments", "/environments/y/apps/hello/builds",
	} {
		n++
		if a := call(t, request{path: "/api/v1/projects/" + s.Project + "-x" + path, token: admin}); a.Status != http.StatusNotFound {
			t.Errorf("%s of the second project: %d %s", path, a.Status, a.Body)
		}
	}
	row.Measured(fmt.Sprintf("%d", n))
}

// TestSecondOwner: a project that is deleted, and made again under its name.
func TestSecondOwner(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "a project made again under an old name: its owner asks for the keys, usage, plans, apps, history, members and audit of the one before",
		"nothing of it is there, not even revoked keys; the audit begins with the new one")
	s := stacktest.New(t, world)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	s.App("hello")
	p := s.Plan(wire.CreatePlan{})
	k := s.Key(p)
	s.Revoke(k)
	_, err := s.Client.DeleteApp(ctx, s.Project, s.Env, "hello")
	must(err)
	must(s.Client.DeletePlan(ctx, s.Project, s.Env, p.ID))
	must(s.Client.DeleteEnvironment(ctx, s.Project, s.Env))
	must(s.Client.DeleteProject(ctx, s.Project))
	clusterOf(t, s).deleteNamespace(t)

	_, err = s.Client.CreateProject(ctx, s.Project)
	must(err)
	_, err = s.Client.CreateEnvironment(ctx, s.Project, s.Env)
	must(err)
	username, password := "second-"+s.Project, "a password of "+s.Project
	_, err = s.Client.CreateUser(ctx, username, password, false)
	must(err)
	must(s.Client.SetMembers(ctx, s.Project, []wire.Member{{Username: username, Role: "owner"}}))
	token := bearer(t, username, password)
	project := "/api/v1/projects/" + s.Project
	environment := project + "/environments/" + s.Env
	n := 0
	for _, path := range []string{
		project + "/api-keys", project + "/api-keys?environment=" + s.Env, environment + "/api-keys", environment + "/plans", environment + "/apps",
		project + "/audit?resource=projects/" + s.Project + "/api-keys", project + "/audit?action=key.revoke", project + "/audit?action=project.delete",
	} {
		n++
		if a := call(t, request{path: path, token: token}); a.Status != http.StatusOK || !strings.Contains(a.Body, `"items":[]`) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for _, path := range []string{
		project + "/api-keys/" + k.ID, project + "/api-keys/" + k.ID + "/usage", environment + "/plans/" + p.ID, environment + "/apps/hello",
		environment + "/apps/hello/deployments", environment + "/apps/hello/builds", environment + "/apps/hello/webhook",
	} {
		n++
		if a := call(t, request{path: path, token: token}); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	row.Measured(fmt.Sprintf("%d", n))
}
