package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	keysPath = "/console/projects/shop/environments/prod/api-keys"
	bulkAPI  = "POST /api/v1/projects/shop/environments/prod/api-keys/bulk"
)

func (o *office) keys() {
	key := func(id, status string) wire.Key {
		return wire.Key{ID: "key-" + id, Prefix: id, Project: "shop", Environment: "prod", Plan: "plan-gold", Status: status, Tags: []string{"batch", "eu"}}
	}
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.List[wire.Key]{Items: []wire.Key{key("aaaaaaa1", "active"), key("aaaaaaa2", "disabled"), key("aaaaaaa3", "revoked")}})
	o.answer("GET /api/v1/projects/shop/environments/prod/plans", 200, wire.List[wire.Plan]{Items: []wire.Plan{{ID: "plan-gold", Name: "Gold"}}})
	state := func(status string) *wire.KeyState { return &wire.KeyState{Plan: "plan-gold", Status: status} }
	inForce := wire.Effect{InForce: &wire.InForce{Change: "7ff9ad4c", Everywhere: true, Replicas: []wire.ReplicaInForce{{Replica: "checker-0", State: "applied"}}}}
	o.answer(bulkAPI, 200, wire.BulkResult{Changed: 1, Unchanged: 1, Failed: 2, Effect: inForce, Results: []wire.KeyResult{
		{KeyID: "key-aaaaaaa1", Name: "<b>", Outcome: "changed", Before: state("active"), After: state("disabled")},
		{KeyID: "key-aaaaaaa2", Outcome: "unchanged", Before: state("disabled"), After: state("disabled")},
		{KeyID: "key-aaaaaaa3", Outcome: "failed", Code: "key_revoked", Message: "The key is revoked.", Before: state("revoked")},
		{KeyID: "key-aaaaaaa4", Outcome: "failed", Code: "not_found", Message: "The key does not exist."},
	}})
}

func contains(t *testing.T, page string, wanted bool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) != wanted {
			t.Errorf("page contains %q: got %t, want %t", text, !wanted, wanted)
		}
	}
}

func TestKeysCanBeSelected(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	const first, second = `<input type="checkbox" name="key" value="key-aaaaaaa1" form="bulk" aria-label="Select aaaaaaa1"`, `value="key-aaaaaaa2"`
	page := o.get(keysPath + "?tag=batch&unused_for=720h").Text()
	contains(t, page, true, first+">", second, `name="do" value="revoke"`, "tags: batch eu", `href="`+keysPath+`?select=all&amp;tag=batch&amp;unused_for=720h#list"`)
	contains(t, page, false, `value="key-aaaaaaa3" form`)
	if q := o.queries["GET /api/v1/projects/shop/api-keys"]; q.Get("tag") != "batch" || q.Get("unused_for") != "720h" || q.Get("sort") != wire.SortLastSeen {
		t.Errorf("filter: got %v", q)
	}
	page = o.get(keysPath + "?select=all").Text()
	contains(t, page, true, first+" checked>")
	contains(t, page, false, "select=all&amp;sort")
	contains(t, o.get("/console/projects/shop/api-keys").Text(), false, first, `name="do"`)
	o.answer("GET /api/v1/projects/shop", 200, wire.Project{Name: "shop", Role: "viewer"})
	contains(t, o.get(keysPath).Text(), false, first, `name="do"`)
}

func TestBulkPreview(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	w := o.post(keysPath+"/bulk", url.Values{"do": {"disable"}, "key": {"key-aaaaaaa1", "key-aaaaaaa2", "key-aaaaaaa3", "key-aaaaaaa4", "key-aaaaaaa1"}})
	page := w.Text()
	check.Equal(t, "calls", []string{bulkAPI + ` {"keys":["key-aaaaaaa1","key-aaaaaaa2","key-aaaaaaa3","key-aaaaaaa4"],"change":{"status":"disabled"},"dry_run":true}`}, o.changes())
	contains(t, page, true, "<h1>Disable 1 key?</h1>", "&lt;b&gt;", `<td data-label="Current">active</td><td data-label="New">disabled</td>`, "Keys that would fail",
		"The key is revoked.", "already have the new value: 1", `action="`+keysPath+`/bulk/apply"`, `<input type="hidden" name="do" value="disable">`, `<input type="hidden" name="key" value="key-aaaaaaa1">`, "Disable 1 key</button>")
	contains(t, page, false, "Change in force.", `name="key" value="key-aaaaaaa2"`, `name="key" value="key-aaaaaaa3"`, keysPath+`/key-aaaaaaa4"`)
	if w.Status != http.StatusOK {
		t.Errorf("status: got %d", w.Status)
	}
}

func TestBulkResult(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	page := o.post(keysPath+"/bulk/apply", url.Values{"do": {"disable"}, "key": {"key-aaaaaaa1"}}).Text()
	check.Equal(t, "calls", []string{bulkAPI + ` {"keys":["key-aaaaaaa1"],"change":{"status":"disabled"}}`}, o.changes())
	if got := o.headers[bulkAPI].Get("Prefer"); got != "wait=1" {
		t.Errorf("Prefer: got %q, want wait=1", got)
	}
	contains(t, page, true, "<h1>1 key disabled</h1>", "Failed keys", "The key is revoked.", "Change in force.", "Back to API keys")
	contains(t, page, false, "/bulk/apply")
	o.answer(bulkAPI, 200, wire.BulkResult{Failed: 1, Results: []wire.KeyResult{{KeyID: "key-aaaaaaa1", Outcome: "failed", Message: "The key is revoked."}}})
	contains(t, o.post(keysPath+"/bulk/apply", url.Values{"do": {"disable"}, "key": {"key-aaaaaaa1"}}).Text(), true, "<h1>No key disabled</h1>")
}

// TestBulkKeepsFilters checks that the pages of a bulk change lead back to the filtered list.
func TestBulkKeepsFilters(t *testing.T) {
	t.Parallel()
	const query, escaped = "?at=51&page=x&tag=batch", "?at=51&amp;page=x&amp;tag=batch"
	o := newOffice(t)
	o.keys()
	contains(t, o.get(keysPath+query+"&select=all").Text(), true, `action="`+keysPath+"/bulk"+escaped+`"`)
	page := o.post(keysPath+"/bulk"+query, url.Values{"do": {"disable"}}).Text()
	contains(t, page, true, "Select at least one key.", `name="tag" type="text" value="batch"`, `href="`+keysPath+`?tag=batch#list"`)
	if got := o.queries["GET /api/v1/projects/shop/api-keys"].Get("tag"); got != "batch" {
		t.Errorf("filter of the list after an error: got %q, want batch", got)
	}
	page = o.post(keysPath+"/bulk"+query, url.Values{"do": {"plan"}, "key": {"key-aaaaaaa1"}}).Text()
	contains(t, page, true, `action="`+keysPath+"/bulk"+escaped+`"`, `href="`+keysPath+escaped+`" data-back>Cancel`)
	page = o.post(keysPath+"/bulk"+query, url.Values{"do": {"disable"}, "key": {"key-aaaaaaa1"}}).Text()
	contains(t, page, true, `action="`+keysPath+"/bulk/apply"+escaped+`"`, `href="`+keysPath+escaped+`" data-back`)
}

func TestBulkNeedsValue(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	page := o.post(keysPath+"/bulk", url.Values{"do": {"plan"}, "key": {"key-aaaaaaa1"}}).Text()
	contains(t, page, true, "<h1>Change the plan of 1 key</h1>", `<option value="plan-gold">`, `name="key" value="key-aaaaaaa1"`, `name="do" value="plan"`)
	page = o.post(keysPath+"/bulk", url.Values{"do": {"tag"}, "key": {"key-aaaaaaa1"}, "add_tags": {" "}}).Text()
	contains(t, page, true, "<h1>Add tags to 1 key</h1>", `<input id="f-add_tags"`)
	if len(o.changes()) > 0 {
		t.Errorf("got the calls %q, want none", o.changes())
	}
	page = o.post(keysPath+"/bulk", url.Values{"do": {"tag"}, "key": {"key-aaaaaaa1"}, "add_tags": {"eu batch"}}).Text()
	check.Equal(t, "calls", []string{bulkAPI + ` {"keys":["key-aaaaaaa1"],"change":{"add_tags":["eu","batch"]},"dry_run":true}`}, o.changes())
	contains(t, page, true, `<input type="hidden" name="add_tags" value="eu batch">`)
	o.refuse(bulkAPI, 422, "invalid_tag", "change.add_tags")
	w := o.post(keysPath+"/bulk", url.Values{"do": {"tag"}, "key": {"key-aaaaaaa1"}, "add_tags": {"EU"}})
	contains(t, w.Text(), true, `id="e-add_tags"`, `value="EU"`)
	w.Shows(422)
}

func TestBulkRefused(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	for _, form := range []url.Values{{"do": {"disable"}}, {"do": {"delete"}, "key": {"key-aaaaaaa1"}}, {}} {
		w := o.post(keysPath+"/bulk", form)
		contains(t, w.Text(), true, "Select at least one key.")
		w.Shows(http.StatusUnprocessableEntity)
		if w := o.post(keysPath+"/bulk/apply", form); w.Status != http.StatusBadRequest {
			t.Errorf("%v: got %d, want %d", form, w.Status, http.StatusBadRequest)
		}
	}
	for _, path := range []string{"/bulk", "/bulk/apply"} {
		if w := o.get(keysPath + path); w.Header.Get("Location") != keysPath {
			t.Errorf("GET %s: got %d to %s, want the list", path, w.Status, w.Header.Get("Location"))
		}
		if w := o.post(keysPath+path, url.Values{"do": {"revoke"}, "key": {"key-aaaaaaa1"}, "csrf": {"wrong"}}); w.Status != http.StatusForbidden {
			t.Errorf("POST %s without the CSRF value: got %d", path, w.Status)
		}
	}
	if len(o.changes()) > 0 {
		t.Errorf("got the calls %q, want none", o.changes())
	}
	o.refuse(bulkAPI, 503, "unavailable")
	w := o.post(keysPath+"/bulk", url.Values{"do": {"disable"}, "key": {"key-aaaaaaa1"}})
	contains(t, w.Text(), true, "The API says unavailable.", `value="key-aaaaaaa1" form="bulk" aria-label="Select aaaaaaa1" checked`)
}

func TestTagsOfAKey(t *testing.T) {
	t.Parallel()
	const api = "/api/v1/projects/shop/api-keys/key-aaaaaaa1"
	o := newOffice(t)
	o.keys()
	o.goldPlan("soft")
	key := wire.Key{ID: "key-aaaaaaa1", Prefix: "aaaaaaa1", Project: "shop", Environment: "prod", Plan: "plan-gold", Scope: "all", Status: "active", Tags: []string{"batch", "eu"}}
	o.answer("GET "+api, 200, key)
	o.answer("PATCH "+api, 200, key)
	o.answer("GET /api/v1/projects/shop/environments/prod/apps", 200, wire.List[wire.App]{})
	contains(t, o.get(keysPath+"/key-aaaaaaa1/edit").Text(), true, `value="batch eu"`, `name="was_tags" value="batch eu"`)
	form := func(tags string) url.Values {
		return url.Values{"plan": {"plan-gold"}, "scope": {"all"}, "tags": {tags}, "was_plan": {"plan-gold"}, "was_tags": {"batch eu"}}
	}
	for _, tags := range []string{"eu  batch", "old", ""} {
		o.post(keysPath+"/key-aaaaaaa1/edit", form(tags))
	}
	check.Equal(t, "calls", []string{"PATCH " + api + ` {"tags":["old"]}`, "PATCH " + api + ` {"tags":null}`}, o.changes())
}
