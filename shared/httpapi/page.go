package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/problem"
)

// Page sizes of lists (decisions section 3).
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)

// Page is the part of a list that a client asks for.
type Page struct {
	Size  int    // 1 to [MaxPageSize]
	Token string // the last id of the page before; "" asks for the first page
}

// ReadPage takes ?page_size= and ?page_token= from the request. The token is
// checked by the store, which made it. Problem: invalid_page.
func ReadPage(r *http.Request) (Page, error) {
	q := r.URL.Query()
	p := Page{Size: DefaultPageSize, Token: q.Get("page_token")}
	if s := q.Get("page_size"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxPageSize {
			return Page{}, problem.Of(problem.InvalidPage)
		}
		p.Size = n
	}
	return p, nil
}
