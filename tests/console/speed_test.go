package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	maxPage      = 100 << 10 // bytes
	maxFirstByte = 50 * time.Millisecond
	wholeCosts   = 6  // factor for pages that read a whole environment
	tries        = 3  // the fastest counts
	patientTries = 21 // in turns with the list, for a page that is too slow
)

// quietList is the time in which the API lists fifty keys with their last use on an idle machine.
// On a busy machine, the limit of a page grows in proportion.
const quietList = 20 * time.Millisecond

// TestPagesAreFast compares the time of each page with that of an API call in the same run. The
// result therefore depends on the cost of a page, not on the load of the machine.
func TestPagesAreFast(t *testing.T) {
	s := newSite(t)
	s.crowd()
	s.indexed()
	r := reader(t)
	pages := r.crawl(s)
	if len(pages) < 15 {
		t.Errorf("got only the pages %s", pages)
	}
	list := "/api/v1/projects/" + s.Project + "/api-keys?environment=" + s.Env
	best := r.best(slices.Concat(pages, []string{list}), tries)
	baseline := best[list]
	limit := limitBy(baseline)
	t.Logf("list of keys: %s; limit for a page: %s", baseline.Round(100*time.Microsecond), limit.Round(time.Millisecond))
	for _, path := range pages {
		body, took, limit := r.read(path), best[path], limit
		if took >= limit { // the machine may be busier now
			var baselineNow time.Duration
			took, baselineNow = r.sideBySide(path, list)
			limit = limitBy(baselineNow)
		}
		t.Logf("%5.1f KB %7s  %s", float64(len(body))/1024, took.Round(100*time.Microsecond), s.shape(path))
		if len(body) >= maxPage {
			t.Errorf("%s: got %d bytes, want less than %d", path, len(body), maxPage)
		}
		if s.whole(path) {
			limit *= wholeCosts
		}
		if took >= limit {
			t.Errorf("%s: first byte: got %s, want less than %s", path, took, limit)
		}
	}
}

// indexed triggers rollup until the list of keys is ready and contains the site's keys. Before, a
// sorted list reads all keys.
func (s site) indexed() {
	s.T.Helper()
	keys, _ := crowdSize()
	s.Until("index the keys", func() bool {
		a := s.Post(world.Info().Functions["rollup"], []byte("{}"),
			"Ce-Specversion", "1.0", "Ce-Type", funcmain.PingType, "Ce-Source", "/tests/console", "Ce-Id", rand.Text())
		if a.Status/100 != 2 {
			s.T.Fatalf("run of rollup: got %d %s", a.Status, a.Body)
		}
		page, err := s.Client.KeysPage(s.T.Context(), s.Project, client.KeyFilter{Environment: s.Env, Sort: wire.SortName}, client.Page{Size: 1})
		must(s.T, err)
		return page.Total != nil && *page.Total >= keys
	})
}

// whole reports whether a page reads all apps or keys of the environment: the overview, and a
// sorted list of keys.
func (s site) whole(path string) bool {
	return path == s.page() || strings.Contains(path, "/api-keys?") && strings.Contains(path, "sort=")
}

// limitBy returns the limit of a page, given the time of the list of keys.
func limitBy(list time.Duration) time.Duration {
	return max(maxFirstByte, time.Duration(float64(maxFirstByte)*float64(list)/float64(quietList)))
}

// sideBySide returns the median times of two pages, which it requests in turns.
func (r pageReader) sideBySide(one, other string) (time.Duration, time.Duration) {
	r.t.Helper()
	var took [2][]time.Duration
	for range patientTries {
		best := r.best([]string{one, other}, 1)
		took[0], took[1] = append(took[0], best[one]), append(took[1], best[other])
	}
	for i := range took {
		slices.Sort(took[i])
	}
	return took[0][patientTries/2], took[1][patientTries/2]
}

// pageReader reads pages with a session, without a browser.
type pageReader struct {
	t      *testing.T
	http   *http.Client
	cookie *http.Cookie
}

func reader(t *testing.T) pageReader {
	t.Helper()
	opened, err := client.New(world.Info().BaseURL).SignIn(t.Context(), admin().username, admin().password)
	must(t, err)
	return pageReader{
		t: t, cookie: &http.Cookie{Name: identity.CookieName, Value: string(opened.Token)},
		http: &http.Client{
			Timeout:       patience,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (r pageReader) get(ctx context.Context, path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, world.Info().BaseURL+path, nil)
	must(r.t, err)
	req.AddCookie(r.cookie)
	req.Header.Set("Sec-Fetch-Site", "none") // as in a browser, so that pages are compressed
	res, err := r.http.Do(req)
	must(r.t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(r.t, err)
	if res.StatusCode/100 == 3 {
		return ""
	}
	if res.StatusCode != http.StatusOK {
		r.t.Errorf("%s: got status %d", path, res.StatusCode)
	}
	return string(body)
}

// read returns the body of a page, or "" for a redirect.
func (r pageReader) read(path string) string {
	r.t.Helper()
	return r.get(r.t.Context(), path)
}

// best returns the shortest time to the first byte of each page. It requests the pages in turns.
func (r pageReader) best(pages []string, tries int) map[string]time.Duration {
	r.t.Helper()
	best := map[string]time.Duration{}
	for range tries {
		for _, path := range pages {
			var begin time.Time
			var took time.Duration
			r.get(httptrace.WithClientTrace(r.t.Context(), &httptrace.ClientTrace{
				WroteRequest:         func(httptrace.WroteRequestInfo) { begin = time.Now() },
				GotFirstResponseByte: func() { took = time.Since(begin) },
			}), path)
			if known, ok := best[path]; !ok || took < known {
				best[path] = took
			}
		}
	}
	return best
}

var link = regexp.MustCompile(`href="(/console/[^"#]*)"`)

// crawl follows the links of a site's pages and returns one page of each shape.
func (r pageReader) crawl(s site) []string {
	r.t.Helper()
	seen := map[string]bool{}
	var pages []string
	next := []string{"/console/projects/" + s.Project, "/console/account", "/console/users", s.page("apps")}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if shape := s.shape(path); seen[shape] || strings.Contains(path, "/assets/") || !s.owns(path) || narrowed(path) {
			continue
		}
		seen[s.shape(path)] = true
		body := r.read(path)
		if body == "" {
			continue
		}
		pages = append(pages, path)
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			next = append(next, strings.ReplaceAll(found[1], "&amp;", "&"))
		}
	}
	slices.Sort(pages)
	return pages
}

// narrowed reports whether a page is a filtered audit log, which TestAuditLog covers.
func narrowed(path string) bool { return strings.Contains(path, "/audit?") }

// owns reports whether a page shows no data of other tests.
func (s site) owns(path string) bool {
	return !strings.HasPrefix(path, "/console/projects/") || strings.HasPrefix(path, "/console/projects/"+s.Project)
}

var names = regexp.MustCompile(`key-[0-9a-z]{8}|token-[0-9a-z]{12}|plan-[a-z]+|(apps|users|members)/[^/?]+|[?&]\w+=[^&]*`)

// shape returns the URL of a page without names and values.
func (s site) shape(path string) string {
	path = strings.Replace(path, s.Project, "{project}", 1)
	path = strings.Replace(path, "environments/"+s.Env, "{env}", 1)
	return names.ReplaceAllStringFunc(path, func(name string) string {
		if kind, _, ok := strings.Cut(name, "/"); ok {
			return kind + "/{name}"
		}
		if kind, _, ok := strings.Cut(name, "="); ok {
			return kind
		}
		kind, _, _ := strings.Cut(name, "-")
		return fmt.Sprintf("{%s}", kind)
	})
}
