package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const pageRows = 50

func (r *request) asked() client.Page {
	return client.Page{Size: pageRows, Token: r.URL.Query().Get("page")}
}

// The query parameters of a later page of a list. The API knows only the token.
const (
	pageField  = "page" // token of the page
	placeField = "at"   // number of the first item
	totalField = "of"   // total of the first page
)

// paging returns the position of a page of the list at path with n items, and its links. next is the
// token of the next page. total is the number of items on all pages, or nil if the API does not
// report it. The links contain the other query parameters, such as filters.
func (r *request) paging(path, next string, n int, total *int) view.Paging {
	q := r.URL.Query()
	path += "?"
	from, all := 1, 0
	if q.Get(pageField) != "" {
		from, all = positive(q.Get(placeField)), positive(q.Get(totalField))
	}
	if total != nil {
		all = *total
	}
	known := from > 0 && n > 0
	to := from + n - 1
	switch {
	case known && next == "":
		all = to
	case to >= all: // items were added since the first page
		all = 0
	}
	var p view.Paging
	if known {
		p.From, p.To, p.Total = from, to, all
	}
	later := q.Has(pageField)
	withoutPage(q)
	if later {
		p.First = strings.TrimSuffix(path+q.Encode(), "?")
	}
	if next == "" {
		return p
	}
	q.Set(pageField, next)
	if known {
		q.Set(placeField, strconv.Itoa(to+1))
	}
	if all > 0 {
		q.Set(totalField, strconv.Itoa(all))
	}
	p.Next = path + q.Encode()
	return p
}

// withoutPage removes the page of a list and its selected items from a query.
func withoutPage(q url.Values) {
	for _, name := range []string{pageField, placeField, totalField, selectField} {
		q.Del(name)
	}
}

// positive returns the number in a text, or 0 if it is not positive.
func positive(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int(max(n, 0))
}

// column returns the heading of a column that sorts the list at path by order, in the given
// direction. current is the order of the list. The link contains the filters of the list.
func (r *request) column(path, label, order, current, direction string) view.Column {
	q := r.URL.Query()
	withoutPage(q)
	q.Set("sort", order)
	c := view.Column{Label: label, Path: path + "?" + q.Encode()}
	if order == current {
		c.Sorted = direction
	}
	return c
}

// withQuery returns the path with the query of the request, which contains the filters and the page
// of a list.
func (r *request) withQuery(path string) string {
	q := r.URL.Query()
	q.Del(selectField)
	return strings.TrimSuffix(path+"?"+q.Encode(), "?")
}

func showList[T any](r *request, name string, p page, read func(context.Context, client.Page) (wire.List[T], error)) error {
	l, err := read(r.Context(), r.asked())
	if err != nil {
		return err
	}
	return r.show(name, p, view.List[T]{Items: l.Items, Paging: r.paging(r.URL.EscapedPath(), l.NextPageToken, len(l.Items), nil)})
}

// follow responds to a part that requests itself. If the part is unchanged, it returns 204, so that
// the focus remains and screen readers stay silent.
func (r *request) follow(l view.Polling, page, part string, body any) error {
	if l.Unchanged(r.URL.Query()) {
		if _, err := r.layout(); err != nil {
			return err
		}
		r.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return r.part(page, part, body)
}
