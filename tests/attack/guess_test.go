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

// withSum appends the checksum of a key.
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

func TestKeyGuessing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "guesses for a known prefix, with valid checksums",
		"the same 401, byte for byte; the real key is neither blocked nor slowed down")
	s, k := gated(t)
	body := k.Full[:apikey.Length-6]
	if withSum(body) != k.Full {
		t.Fatal("withSum returns a wrong checksum")
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

// forget removes the headers that differ between any two responses.
func forget(a stacktest.Answer) {
	a.Header.Del("Date")
	a.Header.Del("X-Request-Id")
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "namespace collision: environments `a-b`/`c` and `a`/`b-c`",
		"409 `namespace_taken` for the second; nothing of the first is reachable through it")
	s := stacktest.New(t, world)
	if _, err := s.Client.CreateProject(t.Context(), s.Project+"-x"); err != nil {
		t.Fatal(err)
	}
	admin := bearer(t, world.Info().Admin.Username, world.Info().Admin.Password)
	in := func(project, env string) stacktest.Answer {
		return call(t, request{method: http.MethodPost, path: "/api/v1/projects/" + project + "/environments", body: `{"name":"` + env + `"}`, token: admin})
	}
	if a := in(s.Project, "x-y"); a.Status != http.StatusCreated {
		t.Fatalf("got %d %s, want %d", a.Status, a.Body, http.StatusCreated)
	}
	if a := in(s.Project+"-x", "y"); a.Status != http.StatusConflict || a.Code() != "namespace_taken" {
		t.Errorf("second environment: got %d %s, want %d namespace_taken", a.Status, a.Body, http.StatusConflict)
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
			t.Errorf("%s of the second project: got %d %s, want %d", path, a.Status, a.Body, http.StatusNotFound)
		}
	}
	row.Measured(fmt.Sprintf("%d", n))
}

func TestSecondOwner(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "a project recreated under an old name: its owner reads everything",
		"nothing of the previous project, not even revoked keys or audit records")
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
			t.Errorf("%s: got %d %s", path, a.Status, a.Body)
		}
	}
	for _, path := range []string{
		project + "/api-keys/" + k.ID, project + "/api-keys/" + k.ID + "/usage", environment + "/plans/" + p.ID, environment + "/apps/hello",
		environment + "/apps/hello/deployments", environment + "/apps/hello/builds", environment + "/apps/hello/webhook",
	} {
		n++
		if a := call(t, request{path: path, token: token}); a.Status != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want %d", path, a.Status, a.Body, http.StatusNotFound)
		}
	}
	row.Measured(fmt.Sprintf("%d", n))
}
