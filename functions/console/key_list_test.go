package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestSearchKeys(t *testing.T) {
	t.Parallel()
	const list = "/console/projects/shop/environments/prod/api-keys"
	const full = "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"
	key := wire.Key{ID: "key-ab12cd34", Prefix: "ab12cd34", Project: "shop", Environment: "prod", Status: "active"}
	tests := []struct {
		name   string
		typed  url.Values
		found  any
		status int
		to     string
		asked  []string
	}{
		{"nothing", url.Values{"search": {" "}}, nil, 303, list, nil},
		{"text", url.Values{"search": {"Check out"}, "status": {"active"}, "plan": {""}, "app": {"hello"}}, nil, 303, list + "?app=hello&search=Check+out&status=active", nil},
		{
			"a full key in a header",
			url.Values{"search": {`-H 'X-API-Key: ` + full + `'`}},
			wire.FoundKey{Key: key, Secret: "current"},
			303, list + "/key-ab12cd34",
			[]string{`POST /api/v1/projects/shop/api-keys/find {"key":"` + full + `"}`},
		},
		{
			"a full key",
			url.Values{"search": {" " + full + "\n"}, "status": {"active"}},
			wire.FoundKey{Key: key, Secret: "current"},
			303, list + "/key-ab12cd34",
			[]string{`POST /api/v1/projects/shop/api-keys/find {"key":"` + full + `"}`},
		},
	}
	tests = append(tests, tests[len(tests)-1])
	tests[len(tests)-1].name, tests[len(tests)-1].typed = "a full key in another field", url.Values{"app": {full}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			if tt.found != nil {
				o.answer("POST /api/v1/projects/shop/api-keys/find", 200, tt.found)
			}
			w := o.post(list+"/search", tt.typed)
			if got := w.Header.Get("Location"); w.Status != tt.status || got != tt.to {
				t.Errorf("got %d to %s, want %s", w.Status, got, tt.to)
			}
			check.Equal(t, "calls", tt.asked, o.changes())
			if strings.Contains(w.Header.Get("Location")+o.log.String(), full[17:]) {
				t.Error("the key is in a URL or in the log")
			}
		})
	}
}

// TestFullKeyInAddress checks that a URL with a full key is rejected, and that the key is neither
// shown nor logged.
func TestFullKeyInAddress(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdefghijABCDEFGHIJ01234567"
	o := newOffice(t)
	for _, path := range []string{"/console/projects/shop/api-keys?search=", "/console/projects/shop/environments/prod/api-keys/"} {
		w := o.get(path + "sluice_ab12cd34_" + secret)
		if w.Status != http.StatusBadRequest || strings.Contains(w.Text()+o.log.String(), secret) || !strings.Contains(w.Text(), "Rotate the key") {
			t.Errorf("%s: got %d %s", path, w.Status, w.Body)
		}
	}
}

func TestSearchFindsNothing(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"not_found": http.StatusNotFound, "invalid_parameter": http.StatusBadRequest} {
		o := newOffice(t)
		o.refuse("POST /api/v1/projects/shop/api-keys/find", status, code)
		o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.List[wire.Key]{})
		o.answer("GET /api/v1/projects/shop/environments/prod/plans", 200, wire.List[wire.Plan]{})
		w := o.post("/console/projects/shop/environments/prod/api-keys/search", url.Values{"search": {"sluice_ab12cd34_secretsecretsecret"}})
		if body := w.Text(); w.Status != http.StatusUnprocessableEntity || strings.Contains(body, "secretsecret") || !strings.Contains(body, `id="e-search"`) {
			t.Errorf("%s: got %d %s", code, w.Status, body)
		}
	}
}

func TestInvalidFilter(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.keys()
	o.failOnce("GET /api/v1/projects/shop/api-keys", 400, "invalid_parameter")
	w := o.get(keysPath + "?tag=Batch")
	contains(t, w.Text(), true, "The API says invalid_parameter.", `value="Batch"`, "aaaaaaa1")
	w.Shows(http.StatusBadRequest)
	if got := o.queries["GET /api/v1/projects/shop/api-keys"]; got.Has("tag") {
		t.Errorf("filter after the error: got %v, want none", got)
	}
}

// TestPageWithoutMatches checks that a page of a filtered list without matches leads to the next one.
func TestPageWithoutMatches(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.KeyList{List: wire.List[wire.Key]{NextPageToken: "x"}})
	o.answer("GET /api/v1/projects/shop/environments/prod/plans", 200, wire.List[wire.Plan]{})
	contains(t, o.get(keysPath+"?status=active").Text(), true, "No matching keys on this page", `?page=x&amp;status=active#list"`)
}

func TestKeyBadges(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := &request{s: o.service}
	quota := func(used uint64) *wire.KeyUsage {
		return &wire.KeyUsage{Week: []wire.UsageDay{{}}, Quota: &wire.QuotaUse{Quota: 100, Period: "day", Used: used}}
	}
	today := func(allowed, rate uint64) *wire.KeyUsage {
		return &wire.KeyUsage{Week: []wire.UsageDay{{UsageTotals: wire.UsageTotals{RateDenied: 99}}, {UsageTotals: wire.UsageTotals{Allowed: allowed, RateDenied: rate}}}}
	}
	good := badge{toneGood, "Active"}
	leak := &wire.KeyLeak{Secret: wire.LeakedCurrent}
	tests := []struct {
		key        wire.Key
		state, and badge
	}{
		{wire.Key{Status: "active"}, good, badge{}},
		{wire.Key{Status: "active", Usage: quota(79)}, good, badge{}},
		{wire.Key{Status: "active", Usage: quota(80)}, good, badge{toneAmber, "80% of quota used"}},
		{wire.Key{Status: "active", Usage: quota(100)}, badge{toneBad, "Quota used up"}, badge{}},
		{wire.Key{Status: "active", Usage: quota(250)}, badge{toneBad, "Quota used up"}, badge{}},
		{wire.Key{Status: "active", Usage: today(9, 1)}, good, badge{toneAmber, "Over its rate today"}},
		{wire.Key{Status: "active", Usage: today(10, 1)}, good, badge{}},
		{wire.Key{Status: "active", Usage: today(0, 0)}, good, badge{}},
		{wire.Key{Status: "active", Scope: "none"}, badge{Text: "No apps"}, badge{}},
		{wire.Key{Status: "active", Scope: "none", Usage: quota(100)}, badge{Text: "No apps"}, badge{}},
		{wire.Key{Status: "active", Scope: "none", Leak: leak}, badge{Text: "No apps"}, badge{toneBad, "Leaked"}},
		{wire.Key{Status: "active", Leak: leak}, good, badge{toneBad, "Leaked"}},
		{wire.Key{Status: "disabled", Scope: "none"}, badge{Text: "Disabled"}, badge{}},
		{wire.Key{Status: "disabled", Usage: quota(100)}, badge{Text: "Disabled"}, badge{}},
		{wire.Key{Status: "revoked", Usage: quota(100)}, badge{Text: "Revoked"}, badge{}},
	}
	for _, tt := range tests {
		row := r.keyRow(tt.key, nil)
		if row.State != tt.state || row.Use != tt.and {
			t.Errorf("%+v: got %+v and %+v, want %+v and %+v", tt.key, row.State, row.Use, tt.state, tt.and)
		}
		if text := row.statusText(); tt.key.Status == "active" && text != "Active" {
			t.Errorf("%+v: got the status %s, want Active", tt.key, text)
		}
	}
}

func TestKeyTable(t *testing.T) {
	t.Parallel()
	const list = "/console/projects/shop/environments/prod/api-keys"
	seen, quota := time.Now().UTC().Format(time.DateOnly), &wire.QuotaUse{Quota: 1000, Period: "day", Used: 2}
	busy := wire.Key{
		ID: "key-ab12cd34", Prefix: "ab12cd34", Name: "Checkout", Project: "shop", Environment: "prod", Plan: "plan-gold", Status: "active", LastSeen: &seen,
		Usage: &wire.KeyUsage{Quota: quota, Week: []wire.UsageDay{{}, {UsageTotals: wire.UsageTotals{Allowed: 1200, RateDenied: 4}}}},
	}
	quiet := wire.Key{ID: "key-zz99yy88", Prefix: "zz99yy88", Project: "shop", Environment: "prod", Plan: "plan-gold", Status: "active", Usage: &wire.KeyUsage{Week: []wire.UsageDay{{}}}}
	o := newOffice(t)
	o.goldPlan("soft")
	total := 1204
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.KeyList{List: wire.List[wire.Key]{Items: []wire.Key{busy, quiet}, NextPageToken: "dG9rZW4"}, Total: &total})
	o.get(list+"?status=active").Shows(200,
		`<a href="`+list+`/key-ab12cd34">Checkout</a>`, "1–2 of 1,204", `<th scope="col" aria-sort="ascending">`, `sort=last_seen&amp;status=active`,
		`at=3&amp;of=1204&amp;page=dG9rZW4&amp;status=active`, "1,204, 4 denied<svg", ">Today<", "2 of 1,000 today", `width="0.5%"`, "data-list",
	)
	q := o.queries["GET /api/v1/projects/shop/api-keys"]
	if q.Get("sort") != wire.SortName || q.Get("page_size") != "50" || q.Get("status") != "active" {
		t.Errorf("got the query %s, want 50 active keys sorted by name", q.Encode())
	}
	o.answer("GET /api/v1/projects/shop/api-keys", 200, wire.KeyList{List: wire.List[wire.Key]{Items: []wire.Key{busy, quiet}, NextPageToken: "dG9rZW4"}})
	w := o.get(list + "?sort=last_seen&page=dG9rZW4&at=51&of=60")
	w.Shows(200, "51–52 of 60", `aria-sort="descending"`, `href="`+list+`?sort=last_seen">`)
	if text := w.Text(); strings.Count(text, `class="spark"`) != 1 || strings.Count(text, "Next page") != 2 {
		t.Errorf("got the page %s, want bars only for requests, and links above and below", text)
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tests := []struct {
		name, query, next string
		n                 int
		total             int // -1 if unknown
		summary           string
		first, later      string
	}{
		{"one page", "?status=active", "", 3, -1, "1–3 of 3", "", ""},
		{"no items", "", "", 0, 0, "", "", ""},
		{"first page", "?status=active", "x", 50, 1204, "1–50 of 1,204", "", "/list?at=51&of=1204&page=x&status=active"},
		{"unknown total", "", "x", 50, -1, "1–50", "", "/list?at=51&page=x"},
		{"later page", "?page=w&at=51&of=1204&status=active", "x", 50, -1, "51–100 of 1,204", "/list?status=active", "/list?at=101&of=1204&page=x&status=active"},
		{"last page", "?page=w&at=51&of=1204", "", 4, -1, "51–54 of 54", "/list", ""},
		{"page without items", "?page=w&at=51", "x", 0, -1, "", "/list", "/list?page=x"},
		{"items were added", "?page=w&at=51&of=60", "x", 50, -1, "51–100", "/list", "/list?at=101&page=x"},
		{"without a place", "?page=w", "x", 50, -1, "", "/list", "/list?page=x"},
		{"invalid place", "?page=w&at=-5&of=<b>", "x", 50, -1, "", "/list", "/list?page=x"},
	}
	for _, tt := range tests {
		r := &request{Request: httptest.NewRequest(http.MethodGet, "/list"+tt.query, nil), s: o.service}
		var total *int
		if tt.total >= 0 {
			total = &tt.total
		}
		p := r.paging("/list", tt.next, tt.n, total)
		if p.Summary() != tt.summary || p.First != tt.first || p.Next != tt.later {
			t.Errorf("%s: got %q, %q and %q, want %q, %q and %q", tt.name, p.Summary(), p.First, p.Next, tt.summary, tt.first, tt.later)
		}
	}
}
