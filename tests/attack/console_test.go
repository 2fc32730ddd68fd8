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

// markup are texts that a page could take for markup, for script or for a template.
func markup() []string {
	return []string{
		`<script>alert(1)</script>{{.}}`, `"><img src=x onerror=alert(2)>`, `' onfocus='alert(3)' autofocus='`, `</title><svg onload=alert(4)>`,
		`{{template "csrf" .CSRF}}`, `{{.CSRF}}{{printf "%s" .User}}`, `<!--a-->&lt;b&gt;<b>c</b>`, `javascript:alert(5)//`,
	}
}

// TestConsoleInjection: what people call things, and what they type and ask for, on
// every page of the console.
func TestConsoleInjection(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "template injection in the console: markup, scripts and template actions as names of keys and plans, in fields of forms, in addresses and as a username, on every page that shows them",
		"each page shows them as they were sent; there is no element, attribute or link that the console did not make, and no template action is carried out")
	s := stacktest.New(t, world)
	s.App("hello")
	for i, text := range markup() {
		name, rate, burst := fmt.Sprintf("%d %s", i, text), 1.0, int64(1)
		s.Key(s.Plan(wire.CreatePlan{Name: &name, Rate: &rate, Burst: &burst}), func(k *wire.CreateKey) { k.Name = text })
	}
	v := &reader{T: t, s: s, seen: map[string]bool{}}
	if wrong := v.foreign(`<!doctype html><title>x</title><p>` + markup()[1]); wrong == "" {
		t.Fatal("an element of another's making is not noticed")
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
			t.Errorf("no page shows %s", text)
		}
	}
	if v.pages < 60 {
		t.Errorf("only %d pages were looked at", v.pages)
	}
	row.Measured(fmt.Sprintf("%d pages", v.pages))
}

// reader goes through the pages of a site with a session in a cookie.
type reader struct {
	*testing.T
	s     *stacktest.Site
	http  *http.Client
	csrf  string
	seen  map[string]bool // addresses
	texts []string        // of the pages, what they show
	pages int
}

// jar gives the reader a client that keeps cookies, those that are Secure too.
func (v *reader) jar() {
	v.Helper()
	cookies, err := cookiejar.New(nil)
	check.OK(v, err)
	v.http = &http.Client{Transport: stacktest.Ingress(world).Transport, Jar: secureJar{cookies}, Timeout: patience}
}

// secureJar takes the ingress for what it is in production, behind TLS.
type secureJar struct{ *cookiejar.Jar }

func (j secureJar) SetCookies(u *url.URL, all []*http.Cookie) { j.Jar.SetCookies(secure(u), all) }
func (j secureJar) Cookies(u *url.URL) []*http.Cookie         { return j.Jar.Cookies(secure(u)) }

func secure(u *url.URL) *url.URL {
	https := *u
	https.Scheme = "https"
	return &https
}

// signIn as some of the texts first, and then as the admin.
func (v *reader) signIn() {
	v.Helper()
	const path = "/console/sign-in"
	send := func(username, password string) *html.Node {
		form := v.page(http.MethodGet, path, nil)
		return v.page(http.MethodPost, path, url.Values{"csrf": {fieldOf(form, "csrf")}, "username": {username}, "password": {password}})
	}
	for _, text := range markup()[:2] { // few: failed sign-ins of an address are counted
		if got := fieldOf(send(text, "a wrong password"), "username"); got != text {
			v.Errorf("typed as a username: %s; shown again: %s", text, got)
		}
	}
	send(world.Info().Admin.Username, world.Info().Admin.Password)
	node := v.page(http.MethodGet, "/console/account", nil)
	if v.csrf = fieldOf(node, "csrf"); v.csrf == "" {
		v.Fatal("not signed in")
	}
}

// crawl reads a page of the site and those that it leads to.
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

// addresses asks for pages with the texts in their addresses.
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

// forms sends the texts in all fields of the forms that make something: each is
// refused, and the form shows what was typed.
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
		fields.Set("once", rand.Text()) // without it the form for a key is not looked at
		for _, path := range []string{
			"/console/projects", "/console/users", project + "/environments", project + "/members",
			project + "/environments/prod/apps", project + "/environments/prod/plans", project + "/environments/prod/api-keys",
		} {
			if node := v.page(http.MethodPost, path, fields); !holds(node, text) {
				v.Errorf("%s does not show what was typed: %s", path, text)
			}
		}
	}
}

// page asks for a page and checks that all in it is the console's own.
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
		v.Errorf("%s %s: %d", method, path, res.StatusCode)
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

// foreign tells what is in a page that the console has not made, "" if nothing is. It puts
// the focus on the first wrong field, and nowhere else.
func (v *reader) foreign(body string) string {
	v.Helper()
	for _, text := range markup() {
		if strings.Contains(text, "<") && strings.Contains(body, text) {
			return "it has " + text + " as it was sent"
		}
	}
	node, err := html.Parse(strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for n := range node.Descendants() {
		switch {
		case n.Type == html.CommentNode:
			return "a comment: " + n.Data
		case n.Data == "script" && n.Type == html.ElementNode && !strings.HasPrefix(attribute(n, "src"), "/console/assets/"),
			n.Data == "img" && !strings.HasPrefix(attribute(n, "src"), "/console/assets/"), n.Data == "b" && n.Type == html.ElementNode:
			return "an element of another's making: " + n.Data
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "autofocus" && attribute(n, "aria-invalid") != "true" || slices.Contains([]string{"href", "action", "src"}, a.Key) && strings.HasPrefix(strings.ToLower(a.Val), "javascript:") {
				return fmt.Sprintf("an attribute of another's making: %s=%q", a.Key, a.Val)
			}
		}
	}
	return ""
}

// shown tells whether a page showed a text as it was sent.
func (v *reader) shown(text string) bool {
	return slices.ContainsFunc(v.texts, func(page string) bool { return strings.Contains(page, text) })
}

// holds tells whether a field of a page has a text in it.
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

// fieldOf is the value of a page's first field of a name.
func fieldOf(node *html.Node, name string) string {
	for n := range node.Descendants() {
		if n.Data == "input" && attribute(n, "name") == name {
			return attribute(n, "value")
		}
	}
	return ""
}
