package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// signed returns the headers of a signed report, as pairs.
func signed(t *testing.T, body string) []string {
	t.Helper()
	head := scanner.Sign(t, scannersKey, body)
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(head)) {
		pairs = append(pairs, name, head[name][0])
	}
	return pairs
}

func listOf(t *testing.T, found ...wire.FoundSecret) string {
	t.Helper()
	body, err := json.Marshal(found)
	check.OK(t, err)
	return string(body)
}

func TestForgedLeaks(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "leak reports: unsigned, wrong body or key, with session or service token, too large, replayed",
		"the same 401, or 413; a replay gets the first response and changes nothing")
	p := newProject(t)
	k := p.site.AnyKey()
	status := func() string {
		t.Helper()
		got, err := p.site.Client.Key(t.Context(), p.site.Project, k.ID)
		check.OK(t, err)
		return got.Status
	}
	body := listOf(t, wire.FoundSecret{Token: k.Full, URL: "https://git.example.com/x?key=" + k.Full, Source: "commit"})
	good := signed(t, body)
	with := func(name, value string) []string { return append(slices.Clone(good), name, value) }
	const sum = "Github-Public-Key-Signature"
	first := ""
	tried := 0
	for name, q := range map[string]request{
		"no signature":     {body: body},
		"another body":     {body: body, header: signed(t, body+" ")},
		"another key":      {body: body, header: with("Github-Public-Key-Identifier", "second")},
		"no key":           {body: body, header: with("Github-Public-Key-Identifier", "")},
		"half a signature": {body: body, header: with(sum, good[3][:40])},
		"two in one":       {body: body, header: with(sum, good[3]+", "+good[3])},
		"a session":        {body: body, token: adminToken(t)},
		"a service token":  {body: body, token: p.tokens[2].token},
		"no list":          {body: `{}`},
	} {
		q.method, q.path = http.MethodPost, "/api/v1/leaks"
		a := call(t, q)
		if first == "" {
			first = a.Body
		}
		if tried++; a.Status != http.StatusUnauthorized || a.Body != first || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: got %d %s", name, a.Status, a.Body)
		}
	}
	for name, long := range map[string]string{
		"too many":  listOf(t, append(make([]wire.FoundSecret, 500), wire.FoundSecret{Token: k.Full})...),
		"too large": listOf(t, wire.FoundSecret{Token: k.Full, Type: strings.Repeat("x", 1<<20)}),
	} {
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks", body: long, header: signed(t, long)})
		if tried++; a.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d %s, want %d", name, a.Status, a.Body, http.StatusRequestEntityTooLarge)
		}
	}
	if got := status(); got != "active" {
		t.Fatalf("status before a valid report: got %s, want active", got)
	}
	for i, want := range []string{"disabled", "active"} {
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks", body: body, header: good})
		if tried++; a.Status != http.StatusOK || strings.TrimSpace(a.Body) != `{"received":1}` {
			t.Errorf("report %d: got %d %s, want %d", i+1, a.Status, a.Body, http.StatusOK)
		}
		if got := status(); got != want {
			t.Errorf("status after report %d: got %s, want %s", i+1, got, want)
		}
		p.site.Enable(k)
	}
	records, err := api.Collect(p.site.Client.Audit(t.Context(), p.site.Project, api.AuditQuery{Action: "key.leak"}))
	if err != nil || len(records) != 1 || strings.Contains(string(records[0].New), k.Full[16:]) {
		t.Errorf("got %d audit records %s, %v, want one without the secret", len(records), records, err)
	}
	row.Measured(fmt.Sprintf("%d calls", tried))
}

func TestForeignLeak(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "leak reports of another project's keys, to probe for valid keys",
		"the same response, after at least 1 s; valid keys are disabled; their project sees the reporter, not the full key")
	own, other := newProject(t), newProject(t)
	ended := other.site.AnyKey()
	other.site.Rotate(ended, 0)
	theirs, second, third := other.site.AnyKey(), other.site.AnyKey(), other.site.AnyKey()
	viewer := own.signIn(t, own.roles[2])
	report := func(token, key, url string) (status int, body string) {
		begun := time.Now()
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks/report", body: fmt.Sprintf(`{"key":%q,"url":%q}`, key, url), token: token})
		if took := time.Since(begun); a.Status == http.StatusOK && took < time.Second {
			t.Errorf("response after %s, want at least 1s", took)
		}
		return a.Status, a.Body
	}
	want, said := report(viewer, ended.Full, "")
	if want != http.StatusOK {
		t.Errorf("ended secret: got %d %s, want %d", want, said, http.StatusOK)
	}
	for name, q := range map[string]struct{ token, key string }{
		"an outsider": {own.signIn(t, own.roles[1]), theirs.Full}, "a viewer": {viewer, second.Full}, "a service token": {own.tokens[0].token, third.Full},
		"again": {viewer, ended.Full},
	} {
		if status, body := report(q.token, q.key, "https://paste.example.com/?k="+q.key); status != want || body != said {
			t.Errorf("%s: got %d %s, want %d %s", name, status, body, want, said)
		}
	}
	if status, _ := report(viewer, theirs.Full[:16]+second.Full[16:], ""); status != http.StatusBadRequest {
		t.Errorf("mixed key: got %d, want %d", status, http.StatusBadRequest)
	}
	by := map[string]string{theirs.ID: own.roles[1].username, second.ID: own.roles[2].username, third.ID: "token:matrix-viewer"}
	got := map[string]string{}
	for id := range by {
		k, err := other.site.Client.Key(t.Context(), other.site.Project, id)
		if err != nil || k.Status != "disabled" || k.Leak == nil {
			t.Fatalf("key %s: got status %s, leak %+v, %v", id, k.Status, k.Leak, err)
		}
		if got[id] = k.Leak.By; k.Leak.FoundAt != "https://paste.example.com/?k=sluice_[redacted]" {
			t.Errorf("key %s: got location %s, want the secret redacted", id, k.Leak.FoundAt)
		}
	}
	check.Equal(t, "reporters", by, got)
	if k, err := other.site.Client.Key(t.Context(), other.site.Project, ended.ID); err != nil || k.Status != "active" || k.Leak != nil {
		t.Errorf("key whose previous secret was reported: got status %s, leak %+v, %v", k.Status, k.Leak, err)
	}
	row.Measured("6 reports")
}
