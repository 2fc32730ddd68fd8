package cli

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
)

// keys are a project's, on two pages.
func keys(t *testing.T) map[string][]answer {
	t.Helper()
	page := func(next string, keys ...wire.Key) []answer {
		b, err := json.Marshal(wire.List[wire.Key]{Items: keys, NextPageToken: next})
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		answers["GET /projects/shop/api-keys/"+k.ID] = ok(string(b))
	}
	for query, more := range map[string]string{"": "?", "?environment=prod": "?environment=prod&"} {
		answers["GET /projects/shop/api-keys"+query] = page("more", one...)
		answers["GET /projects/shop/api-keys"+more+"page_token=more"] = page("", two...)
	}
	return answers
}

// TestKeyByName: which key a command means.
func TestKeyByName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key string
		want      string // id
		exit      int
		stderr    string
	}{
		{name: "an id", key: "key-aaaaaaa1", want: "key-aaaaaaa1"},
		{name: "a prefix", key: "aaaaaaa2", want: "key-aaaaaaa2"},
		{name: "a prefix of a revoked key", key: "aaaaaaa7", want: "key-aaaaaaa7"},
		{name: "a name", key: "Checkout", want: "key-aaaaaaa1"},
		{name: "a name that a revoked key had before", key: "again", want: "key-aaaaaaa5"},
		{name: "a revoked key's name", key: "over", want: "key-aaaaaaa7"},
		{name: "in other letters", key: "checkout", exit: 4, stderr: `error: No key of shop has the id, prefix or name "checkout". (not_found)`},
		{name: "no name", key: "", exit: 4, stderr: `error: No key of shop has the id, prefix or name "". (not_found)`},
		{name: "a name of two", key: "twice", exit: 2, stderr: `error: "twice" names 2 keys: key-aaaaaaa2, key-aaaaaaa4; pass the id (usage)`},
		{name: "a prefix that is a name too", key: "aaaaaaa1", exit: 2, stderr: `error: "aaaaaaa1" names 2 keys: key-aaaaaaa1, key-aaaaaaa6; pass the id (usage)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newPerson(t, newFake(t, keys(t)).URL).runs("key", "show", tt.key, "-o", "json")
			var got wire.Key
			if r.exit == 0 {
				if err := json.Unmarshal([]byte(r.out), &got); err != nil {
					t.Fatal(err)
				}
			}
			if r.exit != tt.exit || got.ID != tt.want || strings.TrimSuffix(r.err, "\n") != tt.stderr {
				t.Errorf("%swant %s, exit %d and %s", r, tt.want, tt.exit, tt.stderr)
			}
		})
	}
}

// TestKeyListFilters: what is left, of all pages.
func TestKeyListFilters(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"":                                   "12345678",
		"--status revoked":                   "37",
		"--status expired":                   "8",
		"--plan plan-gold":                   "123",
		"--plan plan-none":                   "",
		"--app hello":                        "12678",
		"--app site --status active":         "256",
		"--plan plan-free --app hello":       "678",
		"--status active --all-environments": "1256",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			r := newPerson(t, newFake(t, keys(t)).URL).runs(strings.Fields("key list -o json " + flags)...)
			var list wire.List[wire.Key]
			if err := json.Unmarshal([]byte(r.out), &list); err != nil {
				t.Fatalf("%v: %s", err, r)
			}
			got := ""
			for _, k := range list.Items {
				got += strings.TrimPrefix(k.ID, "key-aaaaaaa")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}
