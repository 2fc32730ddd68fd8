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

// signed gives the headers of a report that the program signs, as pairs.
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

// TestForgedLeaks: only a program that is trusted ends keys by its word, and no more often than
// once.
func TestForgedLeaks(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "a program's report of a leaked key without a signature, with another body's, by a key that it does not publish, with two signatures, with a session or a service token; longer than it may be; recorded, and sent again after the key was enabled",
		"401, the same for all of them, or 413, and nothing changes; a recorded one is answered as the first time and changes nothing")
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
	with := func(name, value string) []string { return append(slices.Clone(good), name, value) } // in its place
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
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	for name, long := range map[string]string{
		"too many":  listOf(t, append(make([]wire.FoundSecret, 500), wire.FoundSecret{Token: k.Full})...),
		"too large": listOf(t, wire.FoundSecret{Token: k.Full, Type: strings.Repeat("x", 1<<20)}),
	} {
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks", body: long, header: signed(t, long)})
		if tried++; a.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if got := status(); got != "active" {
		t.Fatalf("the key is %s before anybody has reported it", got)
	}
	for i, want := range []string{"disabled", "active"} {
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks", body: body, header: good})
		if tried++; a.Status != http.StatusOK || strings.TrimSpace(a.Body) != `{"received":1}` {
			t.Errorf("report %d: %d %s", i+1, a.Status, a.Body)
		}
		if got := status(); got != want {
			t.Errorf("after report %d the key is %s, want %s", i+1, got, want)
		}
		p.site.Enable(k)
	}
	records, err := api.Collect(p.site.Client.Audit(t.Context(), p.site.Project, api.AuditQuery{Action: "key.leak"}))
	if err != nil || len(records) != 1 || strings.Contains(string(records[0].New), k.Full[16:]) {
		t.Errorf("%d records: %s, %v", len(records), records, err)
	}
	row.Measured(fmt.Sprintf("%d calls", tried))
}

// TestForeignLeak: whoever reports a key of another project learns nothing by it.
func TestForeignLeak(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "reporting full keys to find out which there are: of another project as its stranger, as a viewer and as a service token, one made of two, one that has ended; with the key in the address where it was found",
		"the same answer for a key and for none, a second after the call at the earliest; the key is ended, its project sees by whom, and the key itself is nowhere")
	own, other := newProject(t), newProject(t)
	ended := other.site.AnyKey()
	other.site.Rotate(ended, 0)
	theirs, second, third := other.site.AnyKey(), other.site.AnyKey(), other.site.AnyKey()
	viewer := own.signIn(t, own.roles[2])
	report := func(token, key, url string) (status int, body string) {
		begun := time.Now()
		a := call(t, request{method: http.MethodPost, path: "/api/v1/leaks/report", body: fmt.Sprintf(`{"key":%q,"url":%q}`, key, url), token: token})
		if took := time.Since(begun); a.Status == http.StatusOK && took < time.Second {
			t.Errorf("answered after %s", took)
		}
		return a.Status, a.Body
	}
	want, said := report(viewer, ended.Full, "")
	if want != http.StatusOK {
		t.Errorf("a secret that has ended: %d %s", want, said)
	}
	for name, q := range map[string]struct{ token, key string }{
		"a stranger": {own.signIn(t, own.roles[1]), theirs.Full}, "a viewer": {viewer, second.Full}, "a service token": {own.tokens[0].token, third.Full},
		"again": {viewer, ended.Full},
	} {
		if status, body := report(q.token, q.key, "https://paste.example.com/?k="+q.key); status != want || body != said {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _ := report(viewer, theirs.Full[:16]+second.Full[16:], ""); status != http.StatusBadRequest {
		t.Errorf("one made of two: %d", status)
	}
	by := map[string]string{theirs.ID: own.roles[1].username, second.ID: own.roles[2].username, third.ID: "token:matrix-viewer"}
	got := map[string]string{}
	for id := range by {
		k, err := other.site.Client.Key(t.Context(), other.site.Project, id)
		if err != nil || k.Status != "disabled" || k.Leak == nil {
			t.Fatalf("%s is %s, %+v, %v", id, k.Status, k.Leak, err)
		}
		if got[id] = k.Leak.By; k.Leak.FoundAt != "https://paste.example.com/?k=sluice_[redacted]" {
			t.Errorf("%s was found at %s", id, k.Leak.FoundAt)
		}
	}
	check.Equal(t, "who has reported them", by, got)
	if k, err := other.site.Client.Key(t.Context(), other.site.Project, ended.ID); err != nil || k.Status != "active" || k.Leak != nil {
		t.Errorf("a key whose former secret was reported is %s, %+v, %v", k.Status, k.Leak, err)
	}
	row.Measured("6 reports")
}
