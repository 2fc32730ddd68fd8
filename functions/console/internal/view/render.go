// Package view renders the console's pages: forms, charts, texts, templates, and the files that
// a page loads. It gets values; it calls no API and knows no page's route.
//
// # Compression
//
// A page contains secrets, above all the CSRF value, next to what its address asks for. A site
// that makes a browser load the page with texts of its own, again and again, and sees the
// lengths of the responses, could learn a secret letter by letter from compressed ones (BREACH).
// So a page is compressed only if no other site can have caused the request: if the browser says
// by Sec-Fetch-Site that the console itself (same-origin) or the user (none) did. All other
// requests get an uncompressed page. The response to a form is never compressed, and no other
// response shows a full key or a token. Masking the CSRF value would protect only that value, and
// padding would only slow the attack down. Assets are not secret and are compressed for every
// client.
package view

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// Renderer writes pages and serves the files that they load.
type Renderer struct {
	pages  map[string]*template.Template // by their names, each with the layout around it
	assets assets
}

// NewRenderer parses the templates and reads the assets. path returns the path with the given
// unescaped segments.
func NewRenderer(path func(segments ...string) string, now func() time.Time) (*Renderer, error) {
	a, err := readAssets(path)
	if err != nil {
		return nil, err
	}
	base, err := template.New("").Funcs(functions(a, path, now)).ParseFS(templateFiles, "templates/layout/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the layout: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	v := &Renderer{pages: map[string]*template.Template{}, assets: a}
	for _, file := range files {
		t, err := base.Clone()
		if err != nil {
			return nil, fmt.Errorf("clone the layout: %w", err)
		}
		if t, err = t.ParseFS(templateFiles, file); err != nil {
			return nil, fmt.Errorf("parse a page: %w", err)
		}
		v.pages[strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")] = t
	}
	return v, nil
}

// Write writes a template of a page with an HTTP status; 0 is 200. It makes the whole response
// before it sends anything: if that fails, the error is all that happens.
func (v *Renderer) Write(w http.ResponseWriter, r *http.Request, status int, page, name string, data any) error {
	t, ok := v.pages[page]
	if !ok {
		return fmt.Errorf("there is no page %s", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("make page %s: %w", page, err)
	}
	body, err := packed(w.Header(), r, b.Bytes())
	if err != nil {
		return fmt.Errorf("compress page %s: %w", page, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(body) // the browser may have gone
	return nil
}

// functions are the functions of templates.
func functions(a assets, path func(segments ...string) string, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset":    a.path,
		"at":       path,
		"grouped":  Comma[uint64],
		"longDate": LongDate,
		"moment":   func(t time.Time) DisplayTime { return NewDisplayTime(t, now()) },
		"parted":   parted,
		"tag":      imageTag,
		"pair":     func(a, b any) [2]any { return [2]any{a, b} },
	}
}

// Paging has the links between the pages of a list.
type Paging struct {
	First string // address of the first page, "" on it
	Next  string // address of the next page, "" on the last
}

// List is a page of a list.
type List[T any] struct {
	Items  []T
	Paging Paging
}

// Polling is the state of a part of a page that will change. With scripts the part is requested
// again every two seconds; without, the page has a link to load it again.
type Polling struct {
	Moving bool   // the part will change
	URL    string // of the part, with the fingerprint of what is shown
	seen   string
}

// NewPolling returns the state of the part at path. shown has the values that decide how the
// part looks.
func NewPolling(moving bool, path string, shown any) Polling {
	if !moving {
		return Polling{}
	}
	seen := fingerprint(shown)
	return Polling{Moving: true, URL: path + "?seen=" + seen, seen: seen}
}

// Unchanged reports whether a request for the part, with the given query, would show what the
// browser shows already.
func (p Polling) Unchanged(query url.Values) bool { return p.Moving && query.Get("seen") == p.seen }

// fingerprint returns a hash of the values that are shown. It protects nothing.
func fingerprint(shown any) string {
	text, err := json.Marshal(shown)
	if err != nil { // only what has come as JSON is shown
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// minPacked is the smallest size of a page that is compressed, in bytes: a smaller one fits into
// one packet.
const minPacked = 1400

// compressible reports whether the response to a request may be compressed; see the package's
// documentation. Only the browser writes Sec-Fetch-Site; no page can.
func compressible(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "same-origin" || site == "none") && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// packers reuses writers: a new one allocates hundreds of kilobytes.
//
//nolint:gochecknoglobals // it holds buffers, and nothing of any page
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// packed returns a page, compressed if it may and should be, and sets the headers for that.
func packed(head http.Header, r *http.Request, page []byte) ([]byte, error) {
	head.Set("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if len(page) < minPacked || !compressible(r) {
		return page, nil
	}
	w := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // there is nothing else in it
	defer packers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	_, err := w.Write(page)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	head.Set("Content-Encoding", "gzip")
	return b.Bytes(), nil
}
