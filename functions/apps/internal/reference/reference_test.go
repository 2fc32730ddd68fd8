package reference

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/tests/check"
)

// lines returns the text of a part of the page, split into rows, paragraphs and headings.
func lines(t *testing.T, page, id string) []string {
	t.Helper()
	_, rest, found := strings.Cut(page, `id="`+id+`">`)
	if !found {
		t.Fatalf("the page has no part %s", id)
	}
	part := regexp.MustCompile(`(?s)^.*?</(?:article|section)>`).FindString(rest)
	part = regexp.MustCompile(`</(?:td|th)>`).ReplaceAllString(part, " | ")
	part = regexp.MustCompile(`</(?:p|tr|li|h\d|pre)>`).ReplaceAllString(strings.ReplaceAll(part, "\n", " "), "\n")
	var all []string
	for line := range strings.SplitSeq(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(part, ""), "\n") {
		if words := strings.Join(strings.Fields(strings.Trim(html.UnescapeString(line), " |")), " "); words != "" {
			all = append(all, words)
		}
	}
	return all
}

func TestRender(t *testing.T) {
	t.Parallel()
	description, err := os.ReadFile("testdata/api.json")
	check.OK(t, err)
	reference, err := newSite(description)
	check.OK(t, err)
	for id, want := range map[string][]string{
		"createThing": {
			"Create a thing; its id comes from its name",
			"POST /api/v1/houses/{house}/things",
			"Needs the role developer. Authenticate with bearer, or cookie and csrf.",
			"Parameters", "Name | Type | About",
			"house path | string | matches ^[a-z]+$", "e.g. shop",
			"Idempotency-Key header | string | Names the call.",
			"Request", "CreateThing is the body of POST.", "Field | Type | About",
			"name | string | Shown, as name.", "1 to 63 characters", "e.g. Ada's",
			"parts | list of string | at most 3 items; no duplicates; each one of a, b",
			"left_out optional | string",
			"lid optional | Lid",
			"lid.open | boolean",
			"until optional | string (date-time) or null | e.g. 2026-12-31T23:59:59Z",
			"weight optional | number | at least 0.01", "e.g. 10",
			"Response 200", "Had before.", "Field | Type | About",
			"name | string",
			"lid | Lid | On top.",
			"lid.open | boolean",
			"inside optional | Pong or null | What is in it.",
			"inside.status | string | one of pong",
			"or", "Pong answers a ping.", "Field | Type | About",
			"status | string | one of pong",
			"Response 204", "Done. No body.",
			"Problems", "400 malformed_json wrong_type", "401 unauthenticated",
			"Example",
			`curl -X POST "$SLUICE_URL/api/v1/houses/shop/things" \ -H "Authorization: Bearer $SLUICE_TOKEN" \ ` +
				`-H 'Content-Type: application/json' -d '{"name":"Ada'\''s","parts":["a"],"until":"2026-12-31T23:59:59Z","weight":10}'`,
		},
		"listThings": {
			"List things", "GET /api/v1/houses/{house}/things",
			"Needs a session. Authenticate with bearer, or cookie.",
			"Parameters", "Name | Type | About",
			"house path | string",
			"page_size query | integer | At most.", "1 to 500; default 50",
			"Response 200", "Done.", "Field | Type | About",
			"items | list of Thing",
			"items[].name | string",
			"items[].lid | Lid | On top.",
			"items[].lid.open | boolean",
			"items[].inside optional | Pong or null | What is in it.",
			"items[].inside.status | string | one of pong",
			"Problems", "401 unauthenticated",
			"Example", `curl "$SLUICE_URL/api/v1/houses/HOUSE/things" \ -H "Authorization: Bearer $SLUICE_TOKEN"`,
		},
		"call": {
			`Call "><img src=x onerror=alert(1)>`, "POST /api/v1/call", "Authenticate with token.",
			"Request optional", "Field | Type | About",
			"again optional | Empty", "again.again optional | Empty", "again.again.again optional | Empty",
			"again.again.again.again optional | Empty", "again.again.again.again.again optional | Empty",
			"Response 202", "Done.", "A body of text/plain.",
			"Example", `curl -X POST "$SLUICE_URL/api/v1/call" \ -H "X-Token: $TOKEN"`,
		},
		"forget": {
			"Forget", "DELETE /api/v1/call", "Response 204", "Done. No body.",
			"Example", `curl -X DELETE "$SLUICE_URL/api/v1/call"`,
		},
		"problems": {
			"Problems", `An error is {"code":"…","message":"…"}. Codes are stable. Messages may change, and may contain more details than listed here.`,
			"Code | Status | Message", "malformed_json | 400 | No JSON.", "wrong_type | 400 | Another <type>.", "unauthenticated | 401 | Authentication is required. Sign in or send a valid service token.",
		},
	} {
		name := map[string]string{"createThing": "things", "listThings": "things", "call": "odd", "forget": "odd", "problems": problemsPage}[id]
		page, err := reference.render(name, "")
		check.OK(t, err)
		check.Equal(t, id, want, lines(t, string(page), id))
	}
	nothingFromOutside(t, reference)
	for _, text := range []string{"", "[]", `{"paths":[]}`, `{"components":{"schemas":{"A":{"type":1}}}}`} {
		if _, err := newSite([]byte(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// results returns the links of the results of a search, without the path of the index.
func results(t *testing.T, s *site, text string) (links []string) {
	t.Helper()
	page, err := s.render(indexPage, text)
	check.OK(t, err)
	_, main, _ := strings.Cut(string(page), `<main`)
	for _, m := range regexp.MustCompile(`<li><a href="`+s.page.Home+`/([^"]*)"`).FindAllStringSubmatch(main, -1) {
		links = append(links, m[1])
	}
	return links
}

// filtered returns the links of the contents that the script shows for a text.
func filtered(t *testing.T, s *site, text string) (links []string) {
	t.Helper()
	page, err := s.render(indexPage, "")
	check.OK(t, err)
	for _, m := range regexp.MustCompile(`<li data-words="([^"]*)"><a href="`+s.page.Home+`/([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		words := html.UnescapeString(m[1])
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(text)), func(word string) bool { return !strings.Contains(words, word) }) {
			links = append(links, m[2])
		}
	}
	return links
}

func TestSearch(t *testing.T) {
	t.Parallel()
	description, err := os.ReadFile("testdata/api.json")
	check.OK(t, err)
	s, err := newSite(description)
	check.OK(t, err)
	for text, want := range map[string][]string{
		"creatething":             {"things#createThing"},
		"THINGS post":             {"things#createThing"},
		"/houses":                 {"things#listThings", "things#createThing"},
		"needs session":           {"things#listThings"},
		"malformed":               {"problems#problem-malformed_json"},
		"json":                    {"problems#problem-malformed_json"},
		"nothing of this kind":    nil,
		"page_size":               {"things#listThings"},
		"idempotency-key":         {"things#createThing"},
		"things left_out":         {"things#createThing"},
		"items[].lid.open":        {"things#listThings"},
		"inside.status":           {"things#listThings", "things#createThing"},
		"name":                    {"things#createThing", "things#listThings"}, // first the call with this word in its summary
		`"><img onerror=alert(1)`: {"odd#call"},
	} {
		got := results(t, s, text)
		check.Equal(t, text, want, got)
		listed := slices.DeleteFunc(got, func(link string) bool { return strings.HasPrefix(link, problemsPage) })
		check.Equal(t, "filtered by "+text, slices.Sorted(slices.Values(listed)), slices.Sorted(slices.Values(filtered(t, s, text))))
	}
	page, err := s.render(indexPage, `<script>alert(1)</script>`)
	check.OK(t, err)
	if strings.Contains(string(page), "<script>alert") || !strings.Contains(string(page), "No matches for “&lt;script&gt;") {
		t.Errorf("the text of the search is not escaped: %s", page)
	}
	if title := "<title>“&lt;script&gt;alert(1)&lt;/script&gt;” · Things API</title>"; !strings.Contains(string(page), title) {
		t.Errorf("got %s, want %s", page, title)
	}
}

// TestSearchFindsParameters searches the served description for parameters, headers, fields and an
// event.
func TestSearchFindsParameters(t *testing.T) {
	t.Parallel()
	s, err := newSite(api.OpenAPI)
	check.OK(t, err)
	for text, want := range map[string]string{
		"dry_run": "keys#bulkKeys", "add_tags": "keys#bulkKeys", "unused_for": "keys#listKeys", "quota_mode": "keys#updatePlan",
		"expires_at": "keys#createKey", "page_token": "apps#listApps", "never_seen": "usage#forecastGate",
		"if-match": "apps#updateApp", "idempotency-key": "keys#createKey", "prefer": "keys#rotateKey", "gate.engaged": "events#dev.sluicegate.gate.engaged.v1",
	} {
		got := results(t, s, text)
		if !slices.Contains(got, want) || !slices.Contains(filtered(t, s, text), want) {
			t.Errorf("%s: got %q, filtered %q, want %s", text, got, filtered(t, s, text), want)
		}
	}
}

// TestStyleUsesTheScalesOfTheConsole checks that rules name sizes and colors, and that the named values
// are those of the console.
func TestStyleUsesTheScalesOfTheConsole(t *testing.T) {
	t.Parallel()
	console, err := os.ReadFile("../../../console/internal/view/assets/style.css")
	check.OK(t, err)
	variables := func(text string, theme int) map[string]string {
		roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(text, 2)
		if len(roots) != 2 {
			t.Fatalf("got %d themes, want 2", len(roots))
		}
		values := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): ([^;]+);`).FindAllStringSubmatch(roots[theme][1], -1) {
			values[m[1]] = m[2]
		}
		return values
	}
	light := variables(style, 0)
	for theme := range 2 {
		want := variables(string(console), theme)
		for name, value := range variables(style, theme) {
			if value != want[name] {
				t.Errorf("theme %d: --%s: got %s, want %s", theme, name, value, want[name])
			}
		}
	}
	scaled := regexp.MustCompile(`^(font|font-size|font-weight|gap|(padding|margin|border)-?[a-z-]*)$`)
	named := regexp.MustCompile(`^((0|auto|inherit|collapse|1px solid|var\(--[a-z0-9-]+\)(/1\.\d)?) ?)+$`)
	declarations := 0
	for _, rule := range regexp.MustCompile(`([^{}]*)\{([^{}]*)\}`).FindAllStringSubmatch(style, -1) {
		for declaration := range strings.SplitSeq(rule[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(declaration), ": ")
			declarations++
			if scaled.MatchString(name) && !named.MatchString(value) || !strings.HasPrefix(name, "--") && strings.Contains(value, "#") {
				t.Errorf("%s: got %s: %s, want named values", strings.TrimSpace(rule[1]), name, value)
			}
		}
	}
	for _, used := range regexp.MustCompile(`var\(--([a-z0-9-]+)`).FindAllStringSubmatch(style, -1) {
		if light[used[1]] == "" {
			t.Errorf("the style sheet does not define --%s", used[1])
		}
	}
	if declarations < 200 {
		t.Errorf("got only %d declarations", declarations)
	}
}

// nothingFromOutside checks that pages have only the embedded script, and only links to existing
// parts.
func nothingFromOutside(t *testing.T, s *site) {
	t.Helper()
	text := map[string]string{}
	for name := range s.files {
		page, err := s.render(name, "")
		check.OK(t, err)
		text[name] = strings.Replace(string(page), "<script>"+script+"</script>", "", 1)
		text[name] = strings.Replace(text[name], `<form method="get" action="`+s.page.Home+`" role="search">`, "", 1)
	}
	for name, page := range text {
		tags := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, `""`) // without the values of attributes
		if found := regexp.MustCompile(`(?i)<(?:script|link|img|iframe|object|form|base|embed|svg)\b|<[^>]*\s(?:style|on[a-z]+|src|action)=|@import|url\(`).FindString(tags); found != "" {
			t.Errorf("page %q contains %q", name, found)
		}
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			path, id, _ := strings.Cut(m[1], "#")
			to, ok := page, path == ""
			if within, local := strings.CutPrefix(path, s.page.Home); local {
				to, ok = text[strings.TrimPrefix(within, "/")]
			}
			known := ok && (id == "" || strings.Contains(to, `id="`+id+`"`))
			if !known && m[1] != "/api/v1/openapi.json" && m[1] != "/console" {
				t.Errorf("page %q links to %q", name, m[1])
			}
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	a := httpapi.NewAPI(slog.New(slog.DiscardHandler), nil, nil)
	Serve(a)
	ask := func(path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if len(header) == 2 {
			r.Header.Set(header[0], header[1])
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	home := api.GetReference.Path
	description, index := ask(api.GetDescription.Path), ask(home)
	for name, w := range map[string]*httptest.ResponseRecorder{"application/json": description, "text/html; charset=utf-8": index} {
		head := w.Header()
		if w.Code != http.StatusOK || head.Get("Content-Type") != name || head.Get("Cache-Control") != "no-cache" ||
			head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" || head.Get("ETag") == "" {
			t.Errorf("%s: %d %v", name, w.Code, head)
		}
	}
	if w := ask(home, "If-None-Match", index.Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Errorf("second request of the page: status %d", w.Code)
	}
	if !json.Valid(description.Body.Bytes()) || description.Body.String() != string(api.OpenAPI) {
		t.Error("the description differs from the embedded one")
	}
	problems := ask(home + "/problems").Body.String()
	for _, row := range api.Table() {
		text := ask(home + "/" + row.Function).Body.String()
		if !strings.Contains(text, `</span> <code>`+row.Path+`</code>`) || !strings.Contains(text, html.EscapeString(row.Summary)) {
			t.Errorf("%s is not on the page of %s", row.Pattern(), row.Function)
		}
		for _, code := range row.Codes() {
			if !strings.Contains(problems, `id="problem-`+string(code)+`"`) {
				t.Errorf("%s, of %s, is not on the page of problems", code, row.Pattern())
			}
		}
	}
	s, err := newSite(api.OpenAPI)
	check.OK(t, err)
	nothingFromOutside(t, s)
	for path, status := range map[string]int{
		"/none": 404, "/": 404, "/keys/": 404, "/events": 200, "?q=" + strings.Repeat("x", maxQuery): 200, "?q=" + strings.Repeat("x", maxQuery+1): 400, "?q=+": 200,
		"?q=" + strings.Repeat("%C3%A4", maxQuery): 200, "?q=" + strings.Repeat("%C3%A4", maxQuery+1): 400,
	} {
		if w := ask(home + path); w.Code != status {
			t.Errorf("%s: got status %d, want %d", path, w.Code, status)
		}
	}
	if got := ask(home + "?q=createKey").Body.String(); !strings.Contains(got, home+"/keys#createKey") {
		t.Errorf("search: got %s", got)
	}
	policy := index.Header().Get("Content-Security-Policy")
	for _, name := range []string{"style", "script"} {
		found := regexp.MustCompile(`(?s)<` + name + `>(.*?)</` + name + `>`).FindStringSubmatch(index.Body.String())
		if found == nil {
			t.Fatalf("the page has no %s", name)
		}
		sum := sha256.Sum256([]byte(found[1]))
		if want := name + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy: got %q, want %q in it", policy, want)
		}
	}
	if want := "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; "; !strings.HasPrefix(policy, want) {
		t.Errorf("policy: got %q, want it to begin with %q", policy, want)
	}
}

// TestEarlierAnchors checks that the index has each anchor of the only page of earlier releases, with
// a link to its new place.
func TestEarlierAnchors(t *testing.T) {
	t.Parallel()
	s, err := newSite(api.OpenAPI)
	check.OK(t, err)
	page, err := s.render(indexPage, "")
	check.OK(t, err)
	anchors := []string{"begin", "events", "problems", "way-bearer"}
	for _, g := range s.page.Groups {
		anchors = append(anchors, "group-"+g.Name)
		for _, o := range g.Operations {
			anchors = append(anchors, o.ID)
			if !strings.Contains(string(page), `<li id="`+o.ID+`"><a href="`+s.page.Home+`/`+g.Name+`#`+o.ID+`">`) {
				t.Errorf("the index has no link to %s", o.ID)
			}
		}
	}
	for _, e := range s.page.Events {
		anchors = append(anchors, e.Type)
	}
	for _, one := range s.page.Problems {
		anchors = append(anchors, "problem-"+one.Code)
	}
	for _, id := range anchors {
		if n := strings.Count(string(page), `id="`+id+`"`); n != 1 {
			t.Errorf("the index has the anchor %s %d times, want once", id, n)
		}
	}
}
