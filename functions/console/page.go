package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// pageRows is how many rows of a list a page shows: more than fit on a screen, and few
// enough that the API answers at once.
const pageRows = 30

// asked is the page of a list that the request asks for.
func (r *request) asked() client.Page {
	return client.Page{Size: pageRows, Token: r.URL.Query().Get("page")}
}

// paging makes the links of a list whose next page has a token; other parameters of
// the address, such as filters, stay.
func (r *request) paging(next string) view.Paging {
	var p view.Paging
	q, path := r.URL.Query(), r.URL.EscapedPath()+"?"
	later := q.Get("page") != ""
	q.Del("page")
	if later {
		p.First = strings.TrimSuffix(path+q.Encode(), "?")
	}
	if next != "" {
		q.Set("page", next)
		p.Next = path + q.Encode()
	}
	return p
}

// showList answers with the part of a list that the request asks for.
func showList[T any](r *request, name string, p page, read func(context.Context, client.Page) (wire.List[T], error)) error {
	l, err := read(r.Context(), r.asked())
	if err != nil {
		return err
	}
	return r.show(name, p, view.List[T]{Items: l.Items, Paging: r.paging(l.NextPageToken)})
}

// follow answers a part that asks for itself: nothing new if it looks as it did, so
// that what somebody reads or has focused stays and a screen reader is silent.
func (r *request) follow(l view.Polling, page, part string, body any) error {
	if l.Unchanged(r.URL.Query()) {
		if _, err := r.frame(); err != nil {
			return err
		}
		r.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return r.part(page, part, body)
}
