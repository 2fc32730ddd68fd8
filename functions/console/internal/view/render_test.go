package view

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

func newTestRenderer(t *testing.T) *Renderer {
	t.Helper()
	r, err := NewRenderer(func(segments ...string) string { return "/" + path.Join(segments...) }, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMissingPage(t *testing.T) {
	t.Parallel()
	r := newTestRenderer(t)
	if err := r.Write(nil, nil, 0, "none", "layout", nil); err == nil {
		t.Error("got no error")
	}
	if _, err := r.assets.path("none.css"); err == nil {
		t.Error("got no error")
	}
}

func TestNothingInline(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := templateFiles.ReadDir("templates/layout")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dir, list := range map[string]int{"templates/": len(entries), "templates/layout/": len(layout)} {
		all := entries
		if dir == "templates/layout/" {
			all = layout
		}
		for _, e := range all[:list] {
			if e.IsDir() {
				continue
			}
			text, err := templateFiles.ReadFile(dir + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			seen++
			if found := inline.Find(text); found != nil {
				t.Errorf("%s contains %q", e.Name(), found)
			}
			for _, form := range regexp.MustCompile(`(?s)<form method="post".*?</form>`).FindAll(text, -1) {
				if !strings.Contains(string(form), `template "csrf"`) {
					t.Errorf("%s has a form without the CSRF value: %.80s", e.Name(), form)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("got only %d templates", seen)
	}
}

func BenchmarkPacked(b *testing.B) {
	page := []byte(strings.Repeat(`<tr><td data-label="Name"><a href="/console/projects/shop">Checkout team</a></td></tr>`, 350)) // 30 KB
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Sec-Fetch-Site", "none")
	for b.Loop() {
		if _, err := packed(http.Header{}, r, page); err != nil {
			b.Fatal(err)
		}
	}
}
