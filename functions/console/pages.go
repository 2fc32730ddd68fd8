package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates, parsed once: each page with the layout around it.
type pages struct {
	byName map[string]*template.Template
}

// parsePages reads templates/layout, which every page has, and each page.
func parsePages(a assets, now func() time.Time) (pages, error) {
	base, err := template.New("").Funcs(functions(a, now)).ParseFS(templateFiles, "templates/layout/*.html")
	if err != nil {
		return pages{}, fmt.Errorf("parse the layout: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return pages{}, fmt.Errorf("list the pages: %w", err)
	}
	p := pages{byName: map[string]*template.Template{}}
	for _, file := range files {
		t, err := base.Clone()
		if err != nil {
			return pages{}, fmt.Errorf("clone the layout: %w", err)
		}
		if t, err = t.ParseFS(templateFiles, file); err != nil {
			return pages{}, fmt.Errorf("parse a page: %w", err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), ".html")
		p.byName[name] = t
	}
	return p, nil
}

// write answers with a template of a page. The page is made whole before anything is
// sent: one that fails half way is an error, not half a page.
func (p pages) write(w http.ResponseWriter, status int, page, name string, data any) error {
	t, ok := p.byName[page]
	if !ok {
		return fmt.Errorf("there is no page %s", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("make page %s: %w", page, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(b.Bytes()) // a browser that has hung up is not told anything more
	return nil
}

// functions are what templates can call.
func functions(a assets, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset":  a.path,
		"at":     at,
		"moment": func(t time.Time) moment { return momentOf(t, now()) },
		"pair":   func(a, b any) [2]any { return [2]any{a, b} },
	}
}
