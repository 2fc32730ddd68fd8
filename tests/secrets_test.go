package tests

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// TestKeyIsKeptSecret uses a key in every way and then looks for its secret in all
// logs and metrics; on the way it sees that the metrics tell what happened.
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

	texts := map[string][]byte{}
	logs, err := filepath.Glob(filepath.Join(world.Info().LogsDir, "*"))
	if err != nil || len(logs) < 10 {
		t.Fatalf("%d logs in %s, %v", len(logs), world.Info().LogsDir, err)
	}
	for _, file := range logs {
		if texts[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range world.Info().CheckerMetrics {
		texts[url] = []byte(stacktest.Get(t, url).Body)
		for _, metric := range []string{
			`sluice_checker_decisions_total{code="allowed"}`, `sluice_checker_decisions_total{code="invalid_key"}`,
			`sluice_checker_staleness_seconds{type="keys"}`, `sluice_checker_staleness_seconds{type="plans"}`, `sluice_checker_staleness_seconds{type="counters"}`,
			"sluice_checker_fresh 1", `sluice_checker_documents{type="keys"}`, "sluice_checker_decision_seconds_bucket",
		} {
			if !bytes.Contains(texts[url], []byte(metric)) {
				t.Errorf("%s lacks %s", url, metric)
			}
		}
	}
	for name, text := range s.Documents() {
		texts[name] = []byte(text)
	}
	const marker = len("sluice_12345678_")
	for where, text := range texts {
		for _, full := range []string{k.Full, rotated.Full} {
			if strings.Contains(string(text), full[marker:marker+32]) {
				t.Errorf("the secret of a key is in %s", where)
			}
		}
	}
}
