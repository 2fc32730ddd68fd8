package tests

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestKeyIsKeptSecret uses a key in every way and searches logs, documents and metrics for its
// secret.
func TestKeyIsKeptSecret(t *testing.T) {
	stacktest.Insides(t, "it reads all logs")
	t.Parallel()
	s := stacktest.New(t, world)
	s.GatedApp("hello")
	k := s.AnyKey()
	s.Opens("hello", k)
	s.Call("hello").Header("X-API-Key", k.Full+"x").Gets(http.StatusUnauthorized)
	s.Call("hello").Header("X-API-Key", k.Full[:len(k.Full)-1]).Gets(http.StatusUnauthorized)
	s.Call("hello").Key(k).Key(k).Gets(http.StatusUnauthorized)
	rotated := s.Rotate(k, 0)
	s.Opens("hello", rotated)

	texts := logsAndDocuments(t, s)
	for _, url := range world.Info().CheckerMetrics {
		texts[url] = []byte(stacktest.Get(t, url).Body)
		for _, metric := range []string{
			`sluice_checker_decisions_total{code="allowed"}`, `sluice_checker_decisions_total{code="invalid_key"}`,
			`sluice_checker_staleness_seconds{type="keys"}`, `sluice_checker_staleness_seconds{type="plans"}`, `sluice_checker_staleness_seconds{type="counters"}`,
			"sluice_checker_fresh 1", `sluice_checker_documents{type="keys"}`, "sluice_checker_decision_seconds_bucket",
		} {
			if !bytes.Contains(texts[url], []byte(metric)) {
				t.Errorf("%s lacks the metric %s", url, metric)
			}
		}
	}
	const marker = len("sluice_12345678_")
	for where, text := range texts {
		for _, full := range []string{k.Full, rotated.Full} {
			if strings.Contains(string(text), full[marker:marker+32]) {
				t.Errorf("%s contains the secret of a key", where)
			}
		}
	}
}

func logsAndDocuments(t *testing.T, s *stacktest.Site) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{}
	logs, err := filepath.Glob(filepath.Join(world.Info().LogsDir, "*"))
	if err != nil || len(logs) < 10 {
		t.Fatalf("logs in %s: got %d, %v, want at least 10", world.Info().LogsDir, len(logs), err)
	}
	for _, file := range logs {
		if texts[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range s.Documents() {
		texts[name] = []byte(text)
	}
	return texts
}

// TestServiceTokenIsKeptSecret uses a token at each function and searches logs and documents for
// its secret.
func TestServiceTokenIsKeptSecret(t *testing.T) {
	stacktest.Insides(t, "it reads all logs")
	t.Parallel()
	s := stacktest.New(t, world)
	s.App("hello")
	k := s.AnyKey()
	name, role := "kept-"+s.Project, "developer"
	token, full, err := s.Client.CreateToken(t.Context(), s.Project, wire.CreateToken{Name: &name, Role: &role})
	check.OK(t, err)
	uses := func(c *client.Client) []error {
		_, session := c.WhoAmI(t.Context())
		_, apps := c.App(t.Context(), s.Project, s.Env, "hello")
		_, keys := c.Key(t.Context(), s.Project, k.ID)
		_, usage := c.Usage(t.Context(), s.Project, k.ID, "", "")
		_, deploys := client.Collect(c.Deployments(t.Context(), s.Project, s.Env, "hello"))
		_, builds := client.Collect(c.Builds(t.Context(), s.Project, s.Env, "hello"))
		return []error{session, apps, keys, usage, deploys, builds}
	}
	for _, err := range uses(s.Client.WithToken(full)) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Client.RevokeToken(t.Context(), s.Project, token.ID); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []client.Token{full, full[:len(full)-1], full + "x"} {
		for _, err := range uses(s.Client.WithToken(bad)) {
			if !client.HasCode(err, "unauthenticated") {
				t.Error(err)
			}
		}
	}
	const marker = len("sluice_st_123456789012_")
	named := 0
	for where, text := range logsAndDocuments(t, s) {
		if strings.Contains(string(text), string(full)[marker:marker+32]) {
			t.Errorf("%s contains the secret of a service token", where)
		}
		if strings.Contains(string(text), `"actor":"token:`+name+`"`) {
			named++
		}
	}
	if named < 6 {
		t.Errorf("logs that name the token: got %d, want at least 6", named)
	}
}
