package attack

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// markup returns texts with markup, scripts or template actions.
func markup() []string {
	return []string{
		`<script>alert(1)</script>{{.}}`, `"><img src=x onerror=alert(2)>`, `' onfocus='alert(3)' autofocus='`, `</title><svg onload=alert(4)>`,
		`{{template "csrf" .CSRF}}`, `{{.CSRF}}{{printf "%s" .User}}`, `<!--a-->&lt;b&gt;<b>c</b>`, `javascript:alert(5)//`,
	}
}

func TestConsoleInjection(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "markup, scripts and template actions in the console's names, forms and addresses",
		"shown as text; no foreign element, attribute, link or template action")
	s := stacktest.New(t, world)
	s.App("hello")
	for i, text := range markup() {
		name, rate, burst := fmt.Sprintf("%d %s", i, text), 1.0, int64(1)
		s.Key(s.Plan(wire.CreatePlan{Name: &name, Rate: &rate, Burst: &burst}), func(k *wire.CreateKey) { k.Name = text })
	}
	v := &reader{T: t, s: s, seen: map[string]bool{}}
	if wrong := v.foreign(`<!doctype html><title>x</title><p>` + markup()[1]); wrong == "" {
		t.Fatal("foreign does not detect an inserted element")
	}
	v.jar()
	v.signIn()
	for _, path := range []string{"", "/members", "/audit", "/api-keys", "/environments/prod/plans", "/environments/prod/api-keys", "/environments/prod/apps"} {
		v.crawl("/console/projects/" + s.Project + path)
	}
	v.crawl("/console/audit")
	v.addresses()
	v.forms()
	for _, text := range markup() {
		if !v.shown(text) {
			t.Errorf("no page shows %q", text)
		}
	}
	if v.pages < 60 {
		t.Errorf("got %d pages, want at least 60", v.pages)
	}
	row.Measured(fmt.Sprintf("%d pages", v.pages))
}

type reader struct {
	*testing.T
	s     *stacktest.Site
	http  *http.Client
	csrf  string
	seen  map[string]bool
	texts []string
	pages int
}

func (v *reader) jar() {
	v.Helper()
	cookies, err := cookiejar.New(nil)
	check.OK(v, err)
	v.http = &http.Client{Transport: stacktest.Ingress(world).Transport, Jar: secureJar{cookies}, Timeout: patience}
}

// secureJar is a cookie jar that treats the ingress as if it used TLS.
type secureJar struct{ *cookiejar.Jar }

func (j secureJar) SetCookies(u *url.URL, all []*http.Cookie) { j.Jar.SetCookies(secure(u), all) }
func (j secureJar) Cookies(u *url.URL) []*http.Cookie         { return j.Jar.Cookies(secure(u)) }

func secure(u *url.URL) *url.URL {
	https := *u
	https.Scheme = "https"
	return &https
}

// signIn first tries some hostile usernames.
func (v *reader) signIn() {
	v.Helper()
	const path = "/console/sign-in"
	send := func(username, password string) *html.Node {
		form := v.page(http.MethodGet, path, nil)
		return v.page(http.MethodPost, path, url.Values{"csrf": {fieldOf(form, "csrf")}, "username": {username}, "password": {password}})
	}
	for _, text := range markup()[:2] { // only two, because failed sign-ins count per address
		if got := fieldOf(send(text, "a wrong password"), "username"); got != text {
			v.Errorf("username in the form: got %q, want %q", got, text)
		}
	}
	send(world.Info().Admin.Username, world.Info().Admin.Password)
	node := v.page(http.MethodGet, "/console/account", nil)
	if v.csrf = fieldOf(node, "csrf"); v.csrf == "" {
		v.Fatal("not signed in")
	}
}

func (v *reader) crawl(path string) {
	v.Helper()
	if v.seen[path] || v.pages > 400 {
		return
	}
	v.seen[path] = true
	node := v.page(http.MethodGet, path, nil)
	for n := range node.Descendants() {
		href := attribute(n, "href")
		if n.Data == "a" && strings.HasPrefix(href, "/console/projects/"+v.s.Project) && !strings.Contains(href, "page=") && !strings.Contains(href, "/audit?") {
			v.crawl(href)
		}
	}
}

func (v *reader) addresses() {
	v.Helper()
	project := "/console/projects/" + v.s.Project
	for _, text := range markup() {
		q, p := url.QueryEscape(text), url.PathEscape(text)
		for _, path := range []string{
			project + "/audit?actor=" + q + "&action=" + q + "&resource=" + q, project + "/audit?from=" + q + "&to=" + q, "/console/audit?action=" + q,
			project + "/environments/prod/api-keys?plan=" + q, project + "/audit?page=" + q, "/console/sign-in?next=" + q, "/console/projects/" + p,
			project + "/environments/" + p + "/apps", project + "/environments/prod/apps/" + p, "/console/users/" + p + "/password", "/console/" + p,
			"/console/projects?page=" + q + "&" + q + "=" + q,
		} {
			v.page(http.MethodGet, path, nil)
		}
	}
}

// forms sends hostile texts in all forms that create something. Each form is rejected and shows
// the input again.
func (v *reader) forms() {
	v.Helper()
	project := "/console/projects/" + v.s.Project
	for _, text := range markup() {
		fields := url.Values{"csrf": {v.csrf}}
		for _, name := range []string{
			"name", "username", "kind", "image", "host", "port", "repository", "branch", "path", "rate", "burst", "quota", "quota_period", "quota_mode", "period",
			"plan", "scope", "apps", "expires_at", "last", "role", "was", "token", "revision",
		} {
			fields.Set(name, text)
		}
		fields.Set("once", rand.Text()) // the key form is rejected without it
		for _, path := range []string{
			"/console/projects", "/console/users", project + "/environments", project + "/members",
			project + "/environments/prod/apps", project + "/environments/prod/plans", project + "/environments/prod/api-keys",
		} {
			if node := v.page(http.MethodPost, path, fields); !holds(node, text) {
				v.Errorf("%s does not show the input %q", path, text)
			}
		}
	}
}

// page requests a page and checks it for foreign markup.
func (v *reader) page(method, path string, fields url.Values) *html.Node {
	v.Helper()
	req, err := http.NewRequestWithContext(v.Context(), method, world.Info().BaseURL+path, strings.NewReader(fields.Encode()))
	check.OK(v, err)
	if fields != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := v.http.Do(req)
	check.OK(v, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	check.OK(v, err)
	if res.StatusCode >= http.StatusInternalServerError {
		v.Errorf("%s %s: got %d", method, path, res.StatusCode)
	}
	v.pages++
	if wrong := v.foreign(string(body)); wrong != "" {
		v.Errorf("%s %s: %s", method, path, wrong)
	}
	node, err := html.Parse(strings.NewReader(string(body)))
	check.OK(v, err)
	v.texts = append(v.texts, textOf(node))
	return node
}

// foreign describes the first part of a page that the console has not created, or returns "".
// Autofocus is allowed only on an invalid field.
func (v *reader) foreign(body string) string {
	v.Helper()
	for _, text := range markup() {
		if strings.Contains(text, "<") && strings.Contains(body, text) {
			return "unescaped text " + text
		}
	}
	node, err := html.Parse(strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for n := range node.Descendants() {
		switch {
		case n.Type == html.CommentNode:
			return "comment: " + n.Data
		case n.Data == "script" && n.Type == html.ElementNode && !strings.HasPrefix(attribute(n, "src"), "/console/assets/"),
			n.Data == "img" && !strings.HasPrefix(attribute(n, "src"), "/console/assets/"), n.Data == "b" && n.Type == html.ElementNode:
			return "foreign element: " + n.Data
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "autofocus" && attribute(n, "aria-invalid") != "true" || slices.Contains([]string{"href", "action", "src"}, a.Key) && strings.HasPrefix(strings.ToLower(a.Val), "javascript:") {
				return fmt.Sprintf("foreign attribute: %s=%q", a.Key, a.Val)
			}
		}
	}
	return ""
}

func (v *reader) shown(text string) bool {
	return slices.ContainsFunc(v.texts, func(page string) bool { return strings.Contains(page, text) })
}

func holds(node *html.Node, text string) bool {
	for n := range node.Descendants() {
		if n.Data == "input" && attribute(n, "value") == text {
			return true
		}
	}
	return false
}

func textOf(node *html.Node) string {
	var b strings.Builder
	for n := range node.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// fieldOf returns the value of the page's first input with the name.
func fieldOf(node *html.Node, name string) string {
	for n := range node.Descendants() {
		if n.Data == "input" && attribute(n, "name") == name {
			return attribute(n, "value")
		}
	}
	return ""
}
