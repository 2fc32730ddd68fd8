package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"

	"github.com/sluicegate/sluice/shared/api"
)

// API serves rows of package api's table.
type API struct {
	*Mux
	sessions  Sessions
	resources Resources
	budgets   *budgets // nil bounds nothing
}

// NewAPI makes an API without routes. sessions and resources are not asked by rows
// that need nothing, or a webhook's token.
func NewAPI(log *slog.Logger, sessions Sessions, resources Resources) *API {
	return &API{Mux: New(log), sessions: sessions, resources: resources}
}

// Within bounds the calls of each principal. The zero budget bounds nothing.
func (a *API) Within(b Budget) *API {
	if b != (Budget{}) {
		a.budgets = newBudgets(b)
	}
	return a
}

// Serve answers a route by a function of who asks, what the path names and what was
// sent. What it returns is encoded with the row's status; [api.None] has no body.
func Serve[Req, Res any](a *API, route api.Route[Req, Res], answer func(context.Context, Scope, Req) (Res, error)) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := begun[Req](a, route.Row, w, r)
		if err != nil {
			return err
		}
		out, err := answer(r.Context(), scope, in)
		if err != nil {
			return err
		}
		if route.Answer == reflect.TypeFor[api.None]() {
			w.WriteHeader(route.Status)
			return nil
		}
		return JSON(w, route.Status, out)
	})
}

// begun is what a handler begins with: who asks, what the path names, and what was sent.
func begun[Req any](a *API, row *api.Row, w http.ResponseWriter, r *http.Request) (scope Scope, in Req, err error) {
	if scope, err = a.scope(row, w.Header(), r); err != nil {
		return scope, in, err
	}
	if slices.Contains(row.Headers, api.IfMatch) {
		if scope.Match, err = matchOf(r.Header); err != nil {
			return scope, in, err
		}
	}
	in, err = read[Req](row, w, r)
	return scope, in, err
}

// ServeRaw answers a row whose handler takes the request itself.
func ServeRaw(a *API, row *api.Row, answer func(http.ResponseWriter, *http.Request, Scope) error) {
	a.Handle(row.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, err := a.scope(row, w.Header(), r)
		if err != nil {
			return err
		}
		return answer(w, r, scope)
	})
}

// read takes what a row's request holds: the query of a GET, or else the JSON body.
func read[Req any](row *api.Row, w http.ResponseWriter, r *http.Request) (Req, error) {
	var in Req
	query := reflect.ValueOf(&api.None{}).Elem()
	if row.Method == http.MethodGet {
		query = reflect.ValueOf(&in).Elem()
	}
	if err := bindQuery(r.URL.RawQuery, query); err != nil {
		return in, err
	}
	switch {
	case row.Method == http.MethodGet, row.Request == reflect.TypeFor[api.None]():
		return in, nil
	case row.Optional:
		return DecodeOptional[Req](w, r)
	}
	return Decode[Req](w, r)
}
