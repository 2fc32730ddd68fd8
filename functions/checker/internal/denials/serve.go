package denials

import (
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
)

// Shown bounds one answer.
const Shown = 500

// list is the answer to GET /denials.
type list struct {
	Items []Denial `json:"items"` // newest first
}

// ServeHTTP answers GET /denials?request_id=&limit=. It is for the private port: it
// tells what clients must not know.
func (b *Book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := Shown
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > Shown {
			httpapi.Fail(w, problem.New(problem.InvalidParameter, "limit is 1 to %d.", Shown))
			return
		}
		limit = n
	}
	if err := httpapi.JSON(w, http.StatusOK, list{Items: b.Find(q.Get("request_id"), limit)}); err != nil { // strings and times always encode
		httpapi.Fail(w, problem.Of(problem.Internal))
	}
}
