package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const pageRows = 30

func (r *request) asked() client.Page {
	return client.Page{Size: pageRows, Token: r.URL.Query().Get("page")}
}

// paging returns the links of a list. next is the token of the next page. The links contain the
// other query parameters, such as filters.
func (r *request) paging(next string) view.Paging {
	var p view.Paging
	q, path := r.URL.Query(), r.URL.EscapedPath()+"?"
	later := q.Get("page") != ""
	q.Del("page")
	q.Del(selectField)
	if later {
		p.First = strings.TrimSuffix(path+q.Encode(), "?")
	}
	if next != "" {
		q.Set("page", next)
		p.Next = path + q.Encode()
	}
	return p
}

func showList[T any](r *request, name string, p page, read func(context.Context, client.Page) (wire.List[T], error)) error {
	l, err := read(r.Context(), r.asked())
	if err != nil {
		return err
	}
	return r.show(name, p, view.List[T]{Items: l.Items, Paging: r.paging(l.NextPageToken)})
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
