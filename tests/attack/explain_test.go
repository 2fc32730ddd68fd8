package attack

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestForgedQueriesAreRejected(t *testing.T) {
	t.Parallel()
	stacktest.Insides(t, "it connects to the checkers' ports")
	row := attacks.Test(t, "denial queries to a checker: unsigned, wrongly signed, outdated, repeated, too large",
		"403, 405 or 413 without a body; only the valid query gets a response")
	s := stacktest.New(t, world)
	id := "request-" + s.Project
	if _, err := stacktest.Replicas(t, world)[0].Check(t.Context(), s.Project+"-prod", "hello", "", "X-Request-Id", id); err != nil {
		t.Fatal(err)
	}
	signed := func(k checkers.QueryKey, at time.Time) (string, string) {
		body, signature, err := k.SignQuery(checkers.Query{RequestID: id, Namespaces: []string{s.Project + "-prod"}, At: at})
		check.OK(t, err)
		return string(body), signature
	}
	body, good := signed(keyOfChecker(t, "checker-0"), time.Now())
	foreign, forged := signed(checkers.NewQueryKey(), time.Now())
	none, zero := signed(checkers.QueryKey{}, time.Now())
	old, stale := signed(keyOfChecker(t, "checker-0"), time.Now().Add(-2*checkers.QueryWindow))
	of1, for1 := signed(keyOfChecker(t, "checker-1"), time.Now())
	tries := []struct {
		what, method, body string
		signatures         []string
		want               int
	}{
		{"by GET", http.MethodGet, "", []string{good}, 405},
		{"by PUT", http.MethodPut, body, []string{good}, 405},
		{"no signature", http.MethodPost, body, nil, 403},
		{"two signatures", http.MethodPost, body, []string{good, good}, 403},
		{"in capitals", http.MethodPost, body, []string{strings.ToUpper(good)}, 403},
		{"another body", http.MethodPost, strings.Replace(body, id, "another", 1), []string{good}, 403},
		{"another process's", http.MethodPost, foreign, []string{forged}, 403},
		{"an empty key", http.MethodPost, none, []string{zero}, 403},
		{"of another time", http.MethodPost, old, []string{stale}, 403},
		{"for another checker", http.MethodPost, of1, []string{for1}, 403},
		{"too large", http.MethodPost, strings.Repeat("x", checkers.MaxQuery+1), []string{good}, 413},
		{"the real one", http.MethodPost, body, []string{good}, 200},
		{"again", http.MethodPost, body, []string{good}, 403},
	}
	for _, try := range tries {
		status, said := query(t, world.Info().Checkers[0], try.method, try.body, try.signatures)
		if status != try.want || (status == http.StatusOK) != strings.Contains(said, `"missing"`) || status != http.StatusOK && said != "" {
			t.Errorf("%s: got %d %q, want %d", try.what, status, said, try.want)
		}
	}
	row.Measured(fmt.Sprintf("%d queries", len(tries)))
}

// keyOfChecker returns the query key in a checker's canary document.
func keyOfChecker(t *testing.T, replica string) checkers.QueryKey {
	t.Helper()
	doc, err := stacktest.Store(t, world).Doc("keys/canary." + replica).Get(t.Context())
	check.OK(t, err)
	k, _ := doc.Data()["question_key"].([]byte)
	if len(k) != len(checkers.QueryKey{}) {
		t.Fatalf("query key of %s: got %d bytes, want %d", replica, len(k), len(checkers.QueryKey{}))
	}
	return checkers.QueryKey(k)
}

func query(t *testing.T, at, method, body string, signatures []string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at+checkers.QueryPath, bytes.NewReader([]byte(body)))
	check.OK(t, err)
	req.Header[http.CanonicalHeaderKey(checkers.SignatureHeader)] = signatures
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	a, err := stacktest.Do(client, req)
	check.OK(t, err)
	return a.Status, a.Body
}

func TestRequestsOfOthers(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "request IDs: other projects', shared, unknown, invalid; a foreign key prefix",
		"the same empty list for foreign and unknown IDs; invalid IDs: 400; without permission: 403")
	own, other := newProject(t), newProject(t)
	shared := "shared-" + own.site.Project
	foreign := other.site.AnyKey()
	other.site.Opens("hello", foreign)
	wrong, err := apikey.NewSecret(apikey.Random(), apikey.Prefix(foreign.Prefix))
	check.OK(t, err)
	replica := stacktest.Replicas(t, world)[0]
	ask := func(p *project, id, key string) {
		if _, err := replica.Check(t.Context(), p.site.Project+"-prod", "hello", key, "X-Request-Id", id); err != nil {
			t.Fatal(err)
		}
	}
	ask(own, shared, "")
	ask(other, shared, foreign.Full+"x")
	ask(other, "theirs-"+own.site.Project, "")
	ask(own, "probe-"+own.site.Project, string(wrong))
	token := bearer(t, own.roles[3].username, own.roles[3].password)
	read := func(id string) wire.ExplainedRequest {
		a := call(t, request{path: own.fill("/api/v1/projects/{project}/requests/") + id, token: token})
		var e wire.ExplainedRequest
		if err := json.Unmarshal([]byte(a.Body), &e); err != nil || a.Status != http.StatusOK {
			t.Errorf("%s: got %d %s", id, a.Status, a.Body)
		}
		return e
	}
	if e := read(shared); len(e.Denials) != 1 || e.Denials[0].Reason != "missing" {
		t.Errorf("shared ID: got %+v, want one denial: missing", e)
	}
	theirs, unknown := read("theirs-"+own.site.Project), read("nobodys")
	if theirs.RequestID = unknown.RequestID; len(theirs.Denials) != 0 || fmt.Sprint(theirs) != fmt.Sprint(unknown) {
		t.Errorf("another project's ID: got %+v, want %+v as for an unknown ID", theirs, unknown)
	}
	if e := read("probe-" + own.site.Project); len(e.Denials) != 1 || e.Denials[0].KeyPrefix != nil || e.Denials[0].Reason != string(checkers.Unknown) {
		t.Errorf("foreign prefix: got %+v, want an unknown key without prefix", e)
	}
	ids := slices.DeleteFunc(hostile(), func(id string) bool { return id == "." || id == ".." })
	ids = append(ids, strings.Repeat("a", 65), "é")
	for _, id := range ids {
		a, err := send(t, http.MethodGet, own.fill("/api/v1/projects/{project}/requests/")+url.PathEscape(id), "", token)
		fine := reqctx.ValidID(id) && a.Status == http.StatusOK
		if err != nil || !fine && (a.Status < 400 || a.Status >= 500) || !reqctx.ValidID(id) && a.Status == http.StatusOK {
			t.Errorf("%.40q: %d %.200s, %v", id, a.Status, a.Body, err)
		}
	}
	for i, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusForbidden} {
		token := ""
		if i > 0 {
			token = bearer(t, own.roles[i].username, own.roles[i].password)
		}
		if a := call(t, request{path: own.fill("/api/v1/projects/{project}/requests/") + shared, token: token}); a.Status != status {
			t.Errorf("%s: got %d %s, want %d", own.roles[i].name, a.Status, a.Body, status)
		}
	}
	row.Measured(fmt.Sprintf("%d ids", len(ids)+4))
}
