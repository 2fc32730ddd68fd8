package console

import (
	"net/url"

	"github.com/sluicegate/sluice/shared/client"
)

// pageRows is how many rows of a list a page shows: more than fit on a screen, and few
// enough that the API answers at once.
const pageRows = 30

// paging is the way through a list: pages come one after the other, as the API gives
// them.
type paging struct {
	First string // address of the first page, "" on it
	Next  string // address of the next page, "" on the last
}

// asked is the page of a list that the visit asks for.
func (v *visit) asked() client.Page {
	return client.Page{Size: pageRows, Token: v.r.URL.Query().Get("page")}
}

// paging makes the links of a list whose next page has a token; other parameters of
// the address, such as filters, stay.
func (v *visit) paging(next string) paging {
	var p paging
	q := v.r.URL.Query()
	if q.Get("page") != "" {
		p.First = v.address(q, "")
	}
	if next != "" {
		p.Next = v.address(q, next)
	}
	return p
}

func (v *visit) address(q url.Values, token string) string {
	q.Del("page")
	if token != "" {
		q.Set("page", token)
	}
	if len(q) == 0 {
		return v.r.URL.EscapedPath()
	}
	return v.r.URL.EscapedPath() + "?" + q.Encode()
}
