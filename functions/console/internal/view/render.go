// Package view renders the console's pages: templates, forms and charts, with their assets. It does
// not call the API.
//
// # Compression
//
// Pages contain secrets, such as the CSRF value, together with text from the URL. If pages were
// compressed, another site could make a browser load them repeatedly and guess a secret from the
// response sizes (BREACH). A page is therefore compressed only if Sec-Fetch-Site shows that the
// console (same-origin) or the user (none) made the request.
//
// Responses to forms are never compressed, because they can show full keys and tokens. Assets are
// not secret and are compressed for every client.
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
	pages  map[string]*template.Template // by name, each with the layout
	assets assets
}

// NewRenderer parses the templates and reads the assets. path joins unescaped segments to a path.
func NewRenderer(path func(segments ...string) string, now func() time.Time) (*Renderer, error) {
	a, err := readAssets(path)
	if err != nil {
		return nil, err
	}
	known, err := readIcons()
	if err != nil {
		return nil, err
	}
	base, err := template.New("").Funcs(functions(a, known, path, now)).ParseFS(templateFiles, "templates/layout/*.html")
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

// Write renders a template of a page and writes it with an HTTP status; 0 means 200. If it cannot
// render the template, it writes nothing and returns an error.
func (v *Renderer) Write(w http.ResponseWriter, r *http.Request, status int, page, name string, data any) error {
	t, ok := v.pages[page]
	if !ok {
		return fmt.Errorf("unknown page %s", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("render page %s: %w", page, err)
	}
	body, err := packed(w.Header(), r, b.Bytes())
	if err != nil {
		return fmt.Errorf("compress page %s: %w", page, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(body) // the browser may have disconnected
	return nil
}

func functions(a assets, known icons, path func(segments ...string) string, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset":    a.path,
		"at":       path,
		"grouped":  Comma[uint64],
		"icon":     known.icon,
		"longDate": LongDate,
		"moment":   func(t time.Time) DisplayTime { return NewDisplayTime(t, now()) },
		"parted":   parted,
		"tag":      imageTag,
		"toned":    known.toned,
		"pair":     func(a, b any) [2]any { return [2]any{a, b} },
	}
}

// Paging is the position of a page in a list, with the links to other pages.
type Paging struct {
	First string // URL of the first page; "" on that page
	Next  string // URL of the next page; "" on the last page

	From, To int // numbers of the page's first and last item; zero without items
	Total    int // items on all pages; 0 if unknown
}

// Summary returns the position as text: "1–50 of 1,204", or "" without items.
func (p Paging) Summary() string {
	switch {
	case p.To == 0:
		return ""
	case p.Total > 0:
		return fmt.Sprintf("%s–%s of %s", Comma(int64(p.From)), Comma(int64(p.To)), Comma(int64(p.Total)))
	}
	return fmt.Sprintf("%s–%s", Comma(int64(p.From)), Comma(int64(p.To)))
}

// Column is the heading of a column that sorts its list.
type Column struct {
	Label  string
	Path   string
	Sorted string // "ascending", "descending", or "" if the list is not sorted by this column
}

// List is a page of a list.
type List[T any] struct {
	Items  []T
	Paging Paging
}

// Polling controls the polling of a part of a page that may change. With JavaScript, the part is
// requested again every two seconds; without it, the page has a link to reload.
type Polling struct {
	Moving bool   // a change is expected
	URL    string // of the part, with a fingerprint of the shown values
	seen   string
}

// NewPolling returns the polling of the part at path. shown holds the values that the part shows.
func NewPolling(moving bool, path string, shown any) Polling {
	if !moving {
		return Polling{}
	}
	seen := fingerprint(shown)
	return Polling{Moving: true, URL: path + "?seen=" + seen, seen: seen}
}

// Unchanged reports whether the browser that sent query already shows the current values.
func (p Polling) Unchanged(query url.Values) bool { return p.Moving && query.Get("seen") == p.seen }

// fingerprint returns a hash of the shown values. It is not a security feature.
func fingerprint(shown any) string {
	text, err := json.Marshal(shown)
	if err != nil { // cannot happen: the values were decoded from JSON
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	return fmt.Sprintf("%016x", h.Sum64())
}

// minPacked is the minimum size for compression in bytes. Smaller pages fit into one packet.
const minPacked = 1400

// compressible reports whether the response may be compressed (see the package doc). Scripts cannot
// set Sec-Fetch-Site.
func compressible(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Method == http.MethodGet && (site == "same-origin" || site == "none") && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// packers reuses writers, because a new one allocates hundreds of kilobytes.
//
//nolint:gochecknoglobals // holds buffers, but no data of pages
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func packed(head http.Header, r *http.Request, page []byte) ([]byte, error) {
	head.Set("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if len(page) < minPacked || !compressible(r) {
		return page, nil
	}
	w := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // contains only writers
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
