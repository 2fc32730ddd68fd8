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
	page, err := render(description)
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
		check.Equal(t, id, want, lines(t, string(page), id))
	}
	nothingFromOutside(t, string(page))
	for _, text := range []string{"", "[]", `{"paths":[]}`, `{"components":{"schemas":{"A":{"type":1}}}}`} {
		if page, err := render([]byte(text)); err == nil {
			t.Errorf("%q: got a page of %d bytes, want an error", text, len(page))
		}
	}
}

// nothingFromOutside checks that a page has no scripts and no external resources, and has only
// local links.
func nothingFromOutside(t *testing.T, page string) {
	t.Helper()
	if found := regexp.MustCompile(`(?i)<(?:script|link|img|iframe|object|form|base|embed|svg)\b|<[^>]*\s(?:style|on[a-z]+|src|action)=|@import|url\(`).FindString(page); found != "" {
		t.Errorf("the page contains %q", found)
	}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		id, local := strings.CutPrefix(m[1], "#")
		if local && !strings.Contains(page, `id="`+id+`"`) || !local && m[1] != "openapi.json" && m[1] != "/console" {
			t.Errorf("the page links to %q", m[1])
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	a := httpapi.NewAPI(slog.New(slog.DiscardHandler), nil, nil)
	Serve(a)
	ask := func(row *api.Row, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(row.Method, row.Path, nil)
		if len(header) == 2 {
			r.Header.Set(header[0], header[1])
		}
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	description, page := ask(api.GetDescription.Row), ask(api.GetReference.Row)
	for name, w := range map[string]*httptest.ResponseRecorder{"application/json": description, "text/html; charset=utf-8": page} {
		head := w.Header()
		if w.Code != http.StatusOK || head.Get("Content-Type") != name || head.Get("Cache-Control") != "no-cache" ||
			head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" || head.Get("ETag") == "" {
			t.Errorf("%s: %d %v", name, w.Code, head)
		}
	}
	if w := ask(api.GetReference.Row, "If-None-Match", page.Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Errorf("second request of the page: status %d", w.Code)
	}
	if !json.Valid(description.Body.Bytes()) || description.Body.String() != string(api.OpenAPI) {
		t.Error("the description differs from the embedded one")
	}
	text := page.Body.String()
	for _, row := range api.Table() {
		if !strings.Contains(text, `</span> <code>`+row.Path+`</code>`) || !strings.Contains(text, html.EscapeString(row.Summary)) {
			t.Errorf("%s is not on the page", row.Pattern())
		}
		for _, code := range row.Codes() {
			if !strings.Contains(text, `id="problem-`+string(code)+`"`) {
				t.Errorf("%s, of %s, is not on the page", code, row.Pattern())
			}
		}
	}
	nothingFromOutside(t, text)
	found := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the page has no style sheet")
	}
	sum := sha256.Sum256([]byte(found[1]))
	want := "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if got := page.Header().Get("Content-Security-Policy"); got != want {
		t.Errorf("policy: got %q, want %q", got, want)
	}
}
