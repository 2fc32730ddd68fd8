package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// hostile returns names with a special meaning in a path, a store, a label, a template, a shell
// or a terminal.
func hostile() []string {
	return []string{
		".", "..", "...", "/", "a/b", "a/../b", "../../users/admin", "a.b", "a.", ".a", "*", "**", "__a__", "__name__", "-", "-a", "a-", "--help", "a b", " a", "a ",
		"a\tb", "a\nb", "a\r\nX-Evil: 1", "a\x00b", "\x1b[31m", "A", "É", "а", "a\u200bb", "💥", "a%2fb", "%2e%2e", "%00", "a;b", "a,b", "a=b", "a:b", "a@b", "a?b", "a#b", "a\\b",
		"a'b", `a"b`, "a`b", "$(id)", "${x}", "{{.}}", "{project}", "<b>", "a|b", "a&b", "~", "a_b", "a+b", strings.Repeat("a", 41), strings.Repeat("a", 64), strings.Repeat("a", 2000),
	}
}

// hostileHere returns every eighth hostile name, starting with a different one in each place.
// "make test-long" uses all.
func hostileHere(place int) []string {
	step := long.Pick(8, 1)
	var some []string
	for i, name := range hostile() {
		if i%step == place%step {
			some = append(some, name)
		}
	}
	return some
}

func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "names that break out of a document path or a label, in every path parameter",
		"4xx with the API's error; no document, Secret or workload changes")
	p := newProject(t)
	admin := adminToken(t)
	fine := map[string]bool{
		"{username}":   true,
		"{request_id}": true, // see TestRequestsOfOthers
	}
	before := p.site.Snapshot()
	var g errgroup.Group
	g.SetLimit(8)
	n, places := 0, 0
	for _, route := range routes() {
		e := expectations()[route]
		for _, param := range slices.Sorted(maps.Keys(p.values)) {
			if !strings.Contains(route, param) || fine[param] {
				continue
			}
			places++
			for _, name := range hostileHere(places) {
				if name == "." || name == ".." {
					continue // the ingress normalizes the path
				}
				n++
				method, path, _ := strings.Cut(p.fill(strings.ReplaceAll(route, param, "\x01")), " ")
				path = strings.ReplaceAll(path, "\x01", url.PathEscape(name))
				g.Go(func() error {
					a, err := send(t, method, path, p.fill(e.body), admin)
					if err != nil {
						return err
					}
					if a.Status < 400 || a.Status >= 500 {
						return fmt.Errorf("%s %.200s: %d %.200s", method, path, a.Status, a.Body)
					}
					return nil
				})
			}
		}
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	unchanged(p.site, before)
	row.Measured(fmt.Sprintf("%d requests", n))
}

func send(t *testing.T, method, path, body, token string) (stacktest.Answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, world.Info().BaseURL, strings.NewReader(body))
	if err != nil {
		return stacktest.Answer{}, err
	}
	u, err := url.Parse(world.Info().BaseURL)
	if err != nil {
		return stacktest.Answer{}, err
	}
	req.URL = &url.URL{Scheme: u.Scheme, Host: u.Host, Opaque: path}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return stacktest.Do(stacktest.Ingress(world), req)
}

func TestNamesInBodies(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "hostile names in request bodies",
		"422 or 400, nothing stored; allowed names are returned unchanged and add no header")
	s, k := gated(t)
	s.Settled("hello", 1, "live")
	admin := adminToken(t)
	project := "/api/v1/projects/" + s.Project
	env := project + "/environments/prod"
	quote := func(v string) string {
		b, err := json.Marshal(v)
		check.OK(t, err)
		return string(b)
	}
	before := s.Snapshot()
	n := 0
	for _, name := range hostile() {
		calls := []request{
			{method: http.MethodPost, path: "/api/v1/projects", body: `{"name":` + quote(name) + `}`},
			{method: http.MethodPost, path: project + "/environments", body: `{"name":` + quote(name) + `}`},
			{method: http.MethodPost, path: env + "/apps", body: `{"name":` + quote(name) + `,"image":"registry.example/echo:v1"}`},
			{method: http.MethodPost, path: env + "/apps", body: `{"name":"x","image":"registry.example/echo:v1","host":` + quote(name+"/"+name) + `}`},
			{method: http.MethodPost, path: env + "/api-keys", body: `{"plan":` + quote(name) + `}`},
			{method: http.MethodPost, path: env + "/api-keys", body: `{"plan":"` + k.Plan + `","apps":[` + quote(name) + `]}`},
			{method: http.MethodPost, path: env + "/apps/hello/promote", body: `{"from_environment":` + quote(name) + `}`},
		}
		if strings.ContainsAny(name, "\n\r\t\x00\x1b") {
			calls = append(calls,
				request{method: http.MethodPost, path: env + "/api-keys", body: `{"plan":"` + k.Plan + `","name":` + quote(name) + `}`},
				request{method: http.MethodPost, path: env + "/plans", body: `{"name":` + quote(name) + `,"rate":1,"burst":1}`},
			)
		}
		for _, q := range calls {
			n++
			q.token = admin
			if a := call(t, q); a.Status != http.StatusUnprocessableEntity && a.Status != http.StatusBadRequest && a.Status != http.StatusNotFound {
				t.Errorf("%s %s %.100s: got %d %.200s", q.method, q.path, q.body, a.Status, a.Body)
			}
		}
	}
	unchanged(s, before)
	for _, name := range []string{"a, b; c=d", `"quoted"`, "Ünïcode 💥", "%0d%0aX-Evil: 1", "<script>", "{{.}}"} {
		n++
		odd := s.AnyKey(func(r *wire.CreateKey) { r.Name = name })
		s.Opens("hello", odd)
		e := s.Echo(s.Call("hello").Key(odd).Gets(http.StatusOK))
		if len(e.Headers["X-Service-Key-Name"]) != 1 || e.Headers["X-Evil"] != nil || odd.Name != name {
			t.Errorf("key name %q: got %q, the app got %v", name, odd.Name, e.Headers)
		}
	}
	row.Measured(fmt.Sprintf("%d requests", n))
}
