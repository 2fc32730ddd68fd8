package cli

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// keys returns a project's keys on two pages, as the result of any search.
func keys(t *testing.T, searched string) map[string][]answer {
	t.Helper()
	page := func(next string, keys ...wire.Key) []answer {
		b, err := json.Marshal(wire.List[wire.Key]{Items: keys, NextPageToken: next})
		check.OK(t, err)
		return []answer{{http.StatusOK, string(b)}}
	}
	key := func(prefix, name, status, plan string, apps ...string) wire.Key {
		return wire.Key{ID: "key-" + prefix, Prefix: prefix, Project: "shop", Environment: "prod", Name: name, Status: status, Plan: plan, Apps: apps}
	}
	one := []wire.Key{
		key("aaaaaaa1", "Checkout", "active", "plan-gold", "hello"),
		key("aaaaaaa2", "twice", "active", "plan-gold"),
		key("aaaaaaa3", "again", "revoked", "plan-gold", "site"),
	}
	two := []wire.Key{
		key("aaaaaaa4", "twice", "disabled", "plan-free", "site"),
		key("aaaaaaa5", "again", "active", "plan-free", "site"),
		key("aaaaaaa6", "aaaaaaa1", "active", "plan-free"),
		key("aaaaaaa7", "over", "revoked", "plan-free"),
		key("aaaaaaa8", "", "expired", "plan-free", "hello", "site"),
	}
	answers := map[string][]answer{}
	for _, k := range slices.Concat(one, two) {
		b, err := json.Marshal(k)
		check.OK(t, err)
		answers["GET /projects/shop/api-keys/"+k.ID] = ok(string(b))
	}
	query := ""
	if searched != "" {
		query = "search=" + searched
	}
	answers["GET /projects/shop/api-keys"+strings.TrimSuffix("?"+query, "?")] = page("more", one...)
	answers["GET /projects/shop/api-keys?"+strings.TrimSuffix("page_token=more&"+query, "&")] = page("", two...)
	return answers
}

func TestFullKeyInArgument(t *testing.T) {
	t.Parallel()
	const full = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ01234567"
	for _, tt := range []struct{ args, want string }{
		{"key show " + full, "GET /projects/shop/api-keys/key-ab12cd34"},
		{"key show X-API-Key:" + full, "GET /projects/shop/api-keys/key-ab12cd34"},
		{"key list --search " + full, "GET /projects/shop/api-keys?environment=prod&search=key-ab12cd34"},
		{"app show " + full, ""},
	} {
		f := newFake(t, shop())
		r := newPerson(t, f.URL).runs(strings.Fields(tt.args)...)
		sent := strings.Join(f.requests(), " ")
		if strings.Contains(sent, full[16:]) || !strings.HasPrefix(sent, tt.want) || strings.Contains(r.err, full[16:]) {
			t.Errorf("%s: got requests %q, want %q: %s", tt.args, sent, tt.want, r)
		}
		if tt.want != "" && !strings.Contains(r.err, "rotate the key") {
			t.Errorf("%s: got no warning: %s", tt.args, r)
		}
	}
}

func TestKeyByName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key string
		want      string
		exit      int
		stderr    string
	}{
		{name: "an id", key: "key-aaaaaaa1", want: "key-aaaaaaa1"},
		{name: "a prefix", key: "aaaaaaa2", want: "key-aaaaaaa2"},
		{name: "a prefix of a revoked key", key: "aaaaaaa7", want: "key-aaaaaaa7"},
		{name: "a name", key: "Checkout", want: "key-aaaaaaa1"},
		{name: "a name that a revoked key also has", key: "again", want: "key-aaaaaaa5"},
		{name: "a revoked key's name", key: "over", want: "key-aaaaaaa7"},
		{name: "a name in other case", key: "checkout", exit: 4, stderr: `error: Project shop has no key with the ID, prefix or name "checkout". Run: sluice key list --all-environments (not_found)`},
		{name: "no name", key: "", exit: 4, stderr: `error: Project shop has no key with the ID, prefix or name "". Run: sluice key list --all-environments (not_found)`},
		{name: "a name of two keys", key: "twice", exit: 2, stderr: `error: "twice" matches 2 keys (key-aaaaaaa2, key-aaaaaaa4): pass an ID (usage)`},
		{name: "a prefix that is a name too", key: "aaaaaaa1", exit: 2, stderr: `error: "aaaaaaa1" matches 2 keys (key-aaaaaaa1, key-aaaaaaa6): pass an ID (usage)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newPerson(t, newFake(t, keys(t, tt.key)).URL).runs("key", "show", tt.key, "-o", "json")
			var got wire.Key
			if r.exit == 0 {
				check.OK(t, json.Unmarshal([]byte(r.out), &got))
			}
			if r.exit != tt.exit || got.ID != tt.want || strings.TrimSuffix(r.err, "\n") != tt.stderr {
				t.Errorf("got key %q, %swant %q, exit %d and %s", got.ID, r, tt.want, tt.exit, tt.stderr)
			}
		})
	}
}

func TestKeyListFilters(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":                                  "?environment=prod",
		"--all-environments":                "",
		"--status revoked --sort last_seen": "?environment=prod&sort=last_seen&status=revoked",
		"--plan plan-gold --app hello":      "?app=hello&environment=prod&plan=plan-gold",
		"--all-environments --search Check": "?search=Check",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			request := "GET /projects/shop/api-keys" + want
			f := newFake(t, map[string][]answer{request: ok(list(""))})
			r := newPerson(t, f.URL).runs(strings.Fields("key list " + flags)...)
			if diff := cmp.Diff([]string{request}, f.requests()); diff != "" || r.exit != 0 {
				t.Errorf("got %srequests (-want +got):\n%s", r, diff)
			}
		})
	}
}
