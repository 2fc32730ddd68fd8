package console

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

//go:embed templates
var templateFiles embed.FS

// templates are parsed once: each page, by its name, with the layout around it.
type templates map[string]*template.Template

// parseTemplates reads templates/layout, which every page has, and each page.
func parseTemplates(a assets, now func() time.Time) (templates, error) {
	base, err := template.New("").Funcs(functions(a, now)).ParseFS(templateFiles, "templates/layout/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the layout: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	all := templates{}
	for _, file := range files {
		t, err := base.Clone()
		if err != nil {
			return nil, fmt.Errorf("clone the layout: %w", err)
		}
		if t, err = t.ParseFS(templateFiles, file); err != nil {
			return nil, fmt.Errorf("parse a page: %w", err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")] = t
	}
	return all, nil
}

// write answers with a template of a page. The page is made whole before anything is
// sent: one that fails half way is an error, not half a page.
func (all templates) write(w http.ResponseWriter, r *http.Request, status int, page, name string, data any) error {
	t, ok := all[page]
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
	_, _ = w.Write(body) // a browser that has hung up is not told anything more
	return nil
}

// functions are what templates can call.
func functions(a assets, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset":    a.path,
		"at":       at,
		"grouped":  grouped[uint64],
		"longDate": longDate,
		"moment":   func(t time.Time) moment { return momentOf(t, now()) },
		"parted":   parted,
		"tag":      imageTag,
		"pair":     func(a, b any) [2]any { return [2]any{a, b} },
	}
}

// pageRows is how many rows of a list a page shows: more than fit on a screen, and few
// enough that the API answers at once.
const pageRows = 30

// paging is the way through a list: pages come one after the other, as the API gives
// them.
type paging struct {
	First string // address of the first page, "" on it
	Next  string // address of the next page, "" on the last
}

// asked is the page of a list that the request asks for.
func (r *request) asked() client.Page {
	return client.Page{Size: pageRows, Token: r.URL.Query().Get("page")}
}

// paging makes the links of a list whose next page has a token; other parameters of
// the address, such as filters, stay.
func (r *request) paging(next string) paging {
	var p paging
	q := r.URL.Query()
	if q.Get("page") != "" {
		p.First = r.address(q, "")
	}
	if next != "" {
		p.Next = r.address(q, next)
	}
	return p
}

func (r *request) address(q url.Values, token string) string {
	q.Del("page")
	if token != "" {
		q.Set("page", token)
	}
	if len(q) == 0 {
		return r.URL.EscapedPath()
	}
	return r.URL.EscapedPath() + "?" + q.Encode()
}

// list is what a page that lists something shows.
type list[T any] struct {
	Items  []T
	Paging paging
}

// showList answers with the part of a list that the request asks for.
func showList[T any](r *request, name string, p page, read func(context.Context, client.Page) (wire.List[T], error)) error {
	l, err := read(r.Context(), r.asked())
	if err != nil {
		return err
	}
	return r.show(name, p, list[T]{l.Items, r.paging(l.NextPageToken)})
}

// live is a part of a page that is on its way somewhere. With scripts it asks for
// itself anew every two seconds; without, the page offers a link to load it again.
type live struct {
	Moving bool   // it will change by itself
	URL    string // where to ask for it, with what is shown already
	seen   string
}

// following makes a part live. path is where it answers; shown is what decides how
// it looks.
func following(moving bool, path string, shown any) live {
	l := live{Moving: moving}
	if moving {
		l.seen = fingerprint(shown)
		l.URL = path + "?" + url.Values{"seen": {l.seen}}.Encode()
	}
	return l
}

// fingerprint tells whether what is shown has changed; it protects nothing.
func fingerprint(shown any) string {
	text, err := json.Marshal(shown)
	if err != nil { // only what has come as JSON is shown
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// follow answers a part that asks for itself: nothing new if it looks as it did, so
// that what somebody reads or has focused stays and a screen reader is silent.
func (r *request) follow(l live, page, part string, body any) error {
	if l.Moving && r.URL.Query().Get("seen") == l.seen {
		if _, err := r.frame(); err != nil {
			return err
		}
		r.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return r.part(page, part, body)
}
