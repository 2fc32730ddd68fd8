package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const bulkCall = "POST /projects/shop/environments/prod/api-keys/bulk"

// bulkAnswer is a response with one result per ID: changed, unless the ID ends in 9 (failed) or 8
// (unchanged).
func bulkAnswer(t *testing.T, ids ...string) answer {
	t.Helper()
	r := wire.BulkResult{Results: []wire.KeyResult{}}
	for _, id := range ids {
		k := wire.KeyResult{KeyID: id, Before: &wire.KeyState{Status: "active"}, After: &wire.KeyState{Status: "disabled"}, Outcome: wire.KeyChanged}
		switch id[len(id)-1] {
		case '9':
			k.Outcome, k.Code, k.After = wire.KeyFailed, "key_revoked", nil
			r.Failed++
		case '8':
			k.Outcome = wire.KeyUnchanged
			r.Unchanged++
		default:
			r.Changed++
		}
		r.Results = append(r.Results, k)
	}
	body, err := json.Marshal(r)
	check.OK(t, err)
	return answer{http.StatusOK, string(body)}
}

func listOf(t *testing.T, statuses map[string]string) []answer {
	t.Helper()
	var l wire.List[wire.Key]
	for id, status := range statuses {
		l.Items = append(l.Items, wire.Key{ID: id, Status: status})
	}
	slices.SortFunc(l.Items, func(a, b wire.Key) int { return strings.Compare(a.ID, b.ID) })
	body, err := json.Marshal(l)
	check.OK(t, err)
	return ok(string(body))
}

func TestBulkAsks(t *testing.T) {
	t.Parallel()
	const query = "GET /projects/shop/api-keys?environment=prod&unused_for=2160h"
	all := []string{"key-aaaaaaa1", "key-aaaaaaa2", "key-aaaaaaa8", "key-aaaaaaa9"}
	sent := func(dry bool, ids ...string) string {
		body := fmt.Sprintf(`{"keys":["%s"],"change":{"status":"disabled"}`, strings.Join(ids, `","`))
		if dry {
			body += `,"dry_run":true`
		}
		return bulkCall + " " + body + "}"
	}
	for typed, want := range map[string]struct {
		exit     int
		requests []string
	}{
		"y": {0, []string{query, sent(true, all...), sent(false, "key-aaaaaaa1", "key-aaaaaaa2")}},
		"n": {1, []string{query, sent(true, all...)}},
		"":  {1, []string{query, sent(true, all...)}},
	} {
		f := newFake(t, map[string][]answer{
			query:    listOf(t, map[string]string{all[0]: "active", all[1]: "active", all[2]: "disabled", all[3]: "active", "key-aaaaaaa3": "revoked"}),
			bulkCall: {bulkAnswer(t, all...), bulkAnswer(t, "key-aaaaaaa1", "key-aaaaaaa2")},
		})
		p := newPerson(t, f.URL)
		p.terminal, p.stdin = true, typed+"\n"
		r := p.runs("key", "bulk", "--unused-for", "90d", "--disable")
		check.Equal(t, "requests after "+typed, want.requests, f.requests())
		for i, h := range f.headers[1:] {
			if waits := h.Get("Prefer") != ""; waits != (i == 1) {
				t.Errorf("bulk call %d: got Prefer: %q, want it only for the change", i, h.Get("Prefer"))
			}
		}
		const question = "2 keys would change, 1 would fail, 1 unchanged. Disable them? [y/N] "
		if r.exit != want.exit || !strings.Contains(r.err, question) || !strings.Contains(r.out, "failed: key_revoked") || strings.Contains(r.out, "aaaaaaa8") {
			t.Errorf("%q: got %s", typed, r)
		}
	}
}

func TestBulkWithoutTerminal(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	r := newPerson(t, f.URL).runs("key", "bulk", "--tag", "batch", "--revoke")
	if r.exit != exitUsage || !strings.Contains(r.err, "confirmation_required") || len(f.requests()) > 0 {
		t.Errorf("got %s and requests %q, want an error without a request", r, f.requests())
	}
}

func TestBulkUsage(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{
		"":                                "disable",
		"--disable":                       "unused-for",
		"--tag a --disable --enable":      "[disable enable]",
		"--tag a --keys-from x --disable": "[keys-from tag]",
		"--tag a --disable=false":         "nothing to change",
		"--tag= --revoke --yes":           "the filter is empty",
		"--unused-for 3w --revoke --yes":  "--unused-for must be a duration",
		"--status gone --revoke --yes":    "--status must be",
		"--tag a --expires= --yes":        "--expires is empty",
		"--keys-from none --revoke --yes": "--keys-from",
		"--tag a --disable -o csv":        "--output must be table, wide, json, yaml or ids",
	} {
		f := newFake(t, nil)
		r := newPerson(t, f.URL).runs(append([]string{"key", "bulk"}, strings.Fields(args)...)...)
		if r.exit != exitUsage || !strings.Contains(r.err, text) || len(f.requests()) > 0 {
			t.Errorf("%s: got %s and requests %q, want %q", args, r, f.requests(), text)
		}
	}
	if r := newPerson(t, newFake(t, nil).URL).runs("key", "show", "key-ab12cd34", "-o", "ids"); r.exit != exitUsage {
		t.Errorf("format ids of another command: got %s", r)
	}
}

func TestBulkKeysFrom(t *testing.T) {
	t.Parallel()
	const n = wire.MaxBulk + 1
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("key-%07d1", i)
	}
	file := filepath.Join(t.TempDir(), "ids")
	check.OK(t, os.WriteFile(file, []byte("\n "+strings.Join(ids, "\r\n")+"\n"+ids[0]+"\n"), 0o600))
	f := newFake(t, map[string][]answer{bulkCall: {bulkAnswer(t, ids[:wire.MaxBulk]...), bulkAnswer(t, "key-00005009")}})
	r := newPerson(t, f.URL).runs("key", "bulk", "--keys-from", file, "--add-tag", "a", "--yes")
	requests := f.requests()
	if r.exit != exitFailed || len(requests) != 2 || !strings.Contains(r.err, "1 of 501 keys failed. (keys_failed)") {
		t.Fatalf("got %d requests and %s", len(requests), r)
	}
	check.Equal(t, "last request", bulkCall+` {"keys":["`+ids[n-1]+`"],"change":{"add_tags":["a"]}}`, requests[1])
	if !strings.HasSuffix(r.out, "500 keys changed, 1 failed.\n") {
		t.Errorf("got %s", r.out[max(0, len(r.out)-200):])
	}

	const full = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"
	p := newPerson(t, f.URL)
	p.stdin = "key-ab12cd34\n" + full
	if r := p.runs("key", "bulk", "--keys-from", "-", "--revoke", "--yes"); r.exit != exitUsage || strings.Contains(r.err, full[16:]) || !strings.Contains(r.err, "line 2") || len(f.requests()) != 2 {
		t.Errorf("full key: got %s", r)
	}
	p.stdin = strings.Repeat("key-ab12cd34\n", maxIDs/13+1)
	if r := p.runs("key", "bulk", "--keys-from", "-", "--revoke", "--yes"); r.exit != exitUsage || !strings.Contains(r.err, "more than 4194304 bytes") || len(f.requests()) != 2 {
		t.Errorf("too many IDs: got %s", r)
	}
}

func TestBulkPrintsIDs(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]answer{
		"GET /projects/shop/api-keys?environment=prod&tag=batch": listOf(t, map[string]string{"key-aaaaaaa1": "active", "key-aaaaaaa9": "active"}),
		bulkCall: {bulkAnswer(t, "key-aaaaaaa1", "key-aaaaaaa8", "key-aaaaaaa9")},
	})
	r := newPerson(t, f.URL).runs("key", "bulk", "--tag", "batch", "--never-expires", "--dry-run", "-o", "ids")
	check.Equal(t, "dry run", result{exitOK, "key-aaaaaaa1\n", ""}.String(), r.String())
	check.Equal(t, "call", bulkCall+` {"keys":["key-aaaaaaa1","key-aaaaaaa9"],"change":{"expires_at":null},"dry_run":true}`, f.requests()[1])
	r = newPerson(t, f.URL).runs("key", "list", "--tag", "batch", "-o", "ids")
	check.Equal(t, "list", result{exitOK, "key-aaaaaaa1\nkey-aaaaaaa9\n", ""}.String(), r.String())
}

func TestBulkBreaksOff(t *testing.T) {
	t.Parallel()
	ids := make([]string, wire.MaxBulk+1)
	for i := range ids {
		ids[i] = fmt.Sprintf("key-%07d1", i)
	}
	f := newFake(t, map[string][]answer{bulkCall: {bulkAnswer(t, ids[:2]...), {http.StatusServiceUnavailable, `{"code":"unavailable","message":"Retry."}`}}})
	p := newPerson(t, f.URL)
	p.stdin = strings.Join(ids, "\n")
	r := p.runs("key", "bulk", "--keys-from", "-", "--disable", "--yes")
	if r.exit != exitFailed || !strings.Contains(r.out, "2 keys disabled, none failed.") || !strings.Contains(r.err, "(unavailable)") {
		t.Errorf("got %s, want the keys that were changed", r)
	}
}
